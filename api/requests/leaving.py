"""Ends the work for a client when the client leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from streamsvm.api.access.auth import client_of
from streamsvm.service.shares import Shares
from streamsvm.storage.machine.thread_work import Unwanted, wanted_until

T = TypeVar("T")

# A key of the ASGI scope: the Presence of the client.
PRESENCE = "streamsvm.presence"
# The limit is high, because Shares limit the threads: a request takes a share before it starts a thread.
_THREADS = CapacityLimiter(1 << 10)


class Presence:
    """Knows whether a connection's client is still there, and calls functions when it leaves. For one event loop."""

    def __init__(self) -> None:
        self._is_gone = False
        self._callbacks: list[Callable[[], object]] = []

    def end(self) -> None:
        """Mark the client as gone, since the connection is lost, and call the callbacks."""
        self._is_gone = True
        for callback in tuple(self._callbacks):
            callback()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` if the client leaves during the `with` statement, or has left before."""
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
    """Run `work` in a thread and return its result.

    If the client leaves, `work` ends at its next call of `check_wanted`, and this raises ClientDisconnect.
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


@asynccontextmanager
async def turn(request: Request, shares: Shares, amount: int = 1) -> AsyncIterator[None]:
    """Wait until it is this client's turn, then hold an amount of `shares` during the `with` statement.

    Raises ClientDisconnect if the client leaves before its turn.
    """
    client = client_of(request.scope)
    if not shares.take(client, amount):
        await while_connected(request, shares.wait(client, amount))
    try:
        yield
    finally:
        shares.give_back(client, amount)


def _presence(request: Request) -> Presence:
    """Return the Presence of the client; without a server, as in tests, a Presence that never ends."""
    return request.scope.get(PRESENCE) or Presence()
