"""Work that ends with its client: nobody else waits for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from streamsvm.api.access.clients import client_of
from streamsvm.service.shares import Shares
from streamsvm.storage.machine.abandoned_work import Unwanted, wanted_until

T = TypeVar("T")

# A key of the ASGI scope: the Presence of the client.
PRESENCE = "streamsvm.presence"
# Who starts a thread has a share of something first.
_THREADS = CapacityLimiter(1 << 10)


class Presence:
    """Whether the client of a connection is still there. Used in one event loop."""

    def __init__(self) -> None:
        self._is_gone = False
        self._callbacks: list[Callable[[], object]] = []

    def end(self) -> None:
        """The connection is lost."""
        self._is_gone = True
        for callback in tuple(self._callbacks):
            callback()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """`callback` is called if the client goes meanwhile, or has gone."""
        self._callbacks.append(callback)
        try:
            if self._is_gone:
                callback()
            yield
        finally:
            self._callbacks.remove(callback)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. When the client goes, it is cancelled and ClientDisconnect raised."""
    working = asyncio.ensure_future(work)
    with _presence(request).calling(working.cancel):
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise
    if working.cancelled():
        raise ClientDisconnect
    return working.result()


async def in_thread(request: Request, work: Callable[[], T]) -> T:
    """Return the result of `work`, which a thread does. When the client goes, it ends at its next border."""
    unwanted = Event()

    def working() -> T:
        with wanted_until(unwanted):
            return work()

    try:
        with _presence(request).calling(unwanted.set):
            return await to_thread.run_sync(working, limiter=_THREADS)
    except Unwanted:
        raise ClientDisconnect from None
    finally:
        unwanted.set()


class Turn:
    """So much of what clients share. Used in one event loop."""

    def __init__(self, request: Request, shares: Shares, amount: int) -> None:
        self._request, self._shares, self._amount = request, shares, amount
        self._client = client_of(request.scope)
        self._is_held = False

    async def take(self) -> None:
        """Wait until it is the turn of this client. ClientDisconnect if it does not wait for it."""
        if not self._shares.take(self._client, self._amount):
            await while_connected(self._request, self._shares.wait(self._client, self._amount))
        self._is_held = True

    def give_back(self) -> None:
        """It may have been given back already."""
        if self._is_held:
            self._is_held = False
            self._shares.give_back(self._client, self._amount)

    async def lent(self, work: Awaitable[T]) -> T:
        """Return the result of `work`; until it is there others may have what this client has."""
        self.give_back()
        result = await work
        await self.take()
        return result


@asynccontextmanager
async def turn(request: Request, shares: Shares, amount: int = 1) -> AsyncIterator[Turn]:
    """So much of what clients share, when it is the turn of this one. ClientDisconnect if it does not wait for it."""
    mine = Turn(request, shares, amount)
    await mine.take()
    try:
        yield mine
    finally:
        mine.give_back()


def _presence(request: Request) -> Presence:
    """Without a server, as in tests, the client stays."""
    return request.scope.get(PRESENCE) or Presence()
