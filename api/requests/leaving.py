"""Ends the work for a client when the client leaves."""

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
# High, because Shares limit the threads: a request takes a share before it starts one.
_THREADS = CapacityLimiter(1 << 10)


class Presence:
    """Knows whether the client of a connection is still there, and calls back when it leaves. For one event loop."""

    def __init__(self) -> None:
        self._is_gone = False
        self._callbacks: list[Callable[[], object]] = []

    def end(self) -> None:
        """Note that the connection is lost, and call the callbacks."""
        self._is_gone = True
        for callback in tuple(self._callbacks):
            callback()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` if the client leaves within the context, or has left before it."""
        self._callbacks.append(callback)
        try:
            if self._is_gone:
                callback()
            yield
        finally:
            self._callbacks.remove(callback)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client leaves, cancel it and raise ClientDisconnect."""
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
    """Return the result of `work`, which runs in a thread.

    If the client leaves, the work ends at its next `check_wanted`, and ClientDisconnect is raised.
    """
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
    """An amount of `shares` that a request holds. For one event loop."""

    def __init__(self, request: Request, shares: Shares, amount: int) -> None:
        self._request, self._shares, self._amount = request, shares, amount
        self._client = client_of(request.scope)
        self._is_held = False

    async def take(self) -> None:
        """Wait until the amount is free for this client. Raises ClientDisconnect if the client leaves before."""
        if not self._shares.take(self._client, self._amount):
            await while_connected(self._request, self._shares.wait(self._client, self._amount))
        self._is_held = True

    def give_back(self) -> None:
        """Give the amount back; does nothing if it is not held."""
        if self._is_held:
            self._is_held = False
            self._shares.give_back(self._client, self._amount)

    async def lent(self, work: Awaitable[T]) -> T:
        """Return the result of `work`; others may have this amount until it is there."""
        self.give_back()
        result = await work
        await self.take()
        return result


@asynccontextmanager
async def turn(request: Request, shares: Shares, amount: int = 1) -> AsyncIterator[Turn]:
    """Hold an amount of `shares` within the context, once it is this client's turn.

    Raises ClientDisconnect if the client leaves before.
    """
    held = Turn(request, shares, amount)
    await held.take()
    try:
        yield held
    finally:
        held.give_back()


def _presence(request: Request) -> Presence:
    """Return the client's Presence; without a server, as in tests, one that never ends."""
    return request.scope.get(PRESENCE) or Presence()
