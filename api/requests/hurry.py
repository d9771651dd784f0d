"""Ends bodies that come slowly, if others wait for the memory or the place that they hold meanwhile.

A client that makes progress is never ended by this, however large its body is: `deadlines` has the limits for all.
"""

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request

from streamsvm.api.access.clients import client_of
from streamsvm.api.requests.deadlines import WaitingBudget
from streamsvm.service.errors import ServiceError
from streamsvm.service.shares import LEAST_RATE, Shares

# Seconds for which others wait for a slow body.
SECONDS = 3.0
_LOOK_SECONDS = 0.5


class Hurry:
    """Takes the chunks of one body, whose client holds a part of `shares` until it has arrived."""

    def __init__(self, request: Request, shares: Shares) -> None:
        self._client, self._shares = client_of(request.scope), shares
        self._budget = WaitingBudget(SECONDS, LEAST_RATE)

    async def rest(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield all chunks that are still to come. Raises ServiceError too_slow, and what `chunks` raises."""
        loop = asyncio.get_running_loop()
        chunk: bytes | None = b""
        while chunk is not None:
            began = loop.time()
            try:
                async with asyncio.timeout(None) as limit:
                    looking = loop.create_task(self._end_if_wanted(limit))
                    try:
                        chunk = await anext(chunks, None)
                    finally:
                        looking.cancel()
            except TimeoutError:
                raise ServiceError("too_slow", "the body came too slowly, and another client waited") from None
            self._budget.spend(loop.time() - began, len(chunk or b""))
            if chunk:
                yield chunk

    async def _end_if_wanted(self, limit: asyncio.Timeout) -> None:
        """Let the time be over when the client was waited for long enough, and somebody wants what it holds."""
        await asyncio.sleep(max(0.0, self._budget.left))
        while not self._shares.is_wanted(self._client):
            await asyncio.sleep(_LOOK_SECONDS)
        limit.reschedule(asyncio.get_running_loop().time())
