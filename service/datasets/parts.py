"""Hands the bytes of several requests to the upload that reads them in, and waits between two requests."""

import asyncio
import time
from collections.abc import AsyncIterator

from streamsvm.service.datasets.uploads import given_up

# An upload that has been without a request for so long may be ended for another one that finds no slot.
_SILENT_SECONDS = 60.0


class Parts:
    """An async iterator over the chunks that requests `put`, one request after the other. For one event loop.

    A request calls `resume`, `put` for each chunk, and `finish` or `pause`. If no request resumes within
    `wait_seconds`, the iterator raises ServiceError given_up.
    """

    def __init__(self, wait_seconds: float) -> None:
        self.offset = 0  # bytes taken so far: every one of them reaches the reader
        self.is_complete = False
        self._wait_seconds = wait_seconds
        self._chunk: bytes | None = None
        self._is_expired = False
        self._wakes_reader, self._has_room = asyncio.Event(), asyncio.Event()
        self._has_room.set()
        self._silent_since: float | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.pause()

    def resume(self) -> None:
        """Stop the clock: a request has come."""
        self._silent_since = None
        self._stop_clock()

    def pause(self) -> None:
        """Start the clock: the request has ended and others must follow; does nothing once all bytes are there."""
        if not (self.is_complete or self._is_expired):
            self._silent_since = time.monotonic()
            self.renew()

    def renew(self) -> None:
        """Wait for `wait_seconds` from now on."""
        self._stop_clock()
        self._expiry = asyncio.get_running_loop().call_later(self._wait_seconds, self.expire)

    def hurry(self) -> None:
        """Wait no more for requests from now on; one that is sending bytes may go on."""
        self._wait_seconds = 0.0
        if self._silent_since is not None:
            self.expire()

    def expire(self) -> None:
        """Wait no longer: the iterator raises given_up."""
        self._stop_clock()
        self._is_expired = True
        self._wakes_reader.set()

    async def put(self, chunk: bytes) -> None:
        """Hand a chunk over once the chunk before it was taken. Cancelled, it has taken nothing of the chunk."""
        await self._has_room.wait()
        self._chunk = chunk
        self.offset += len(chunk)
        self._has_room.clear()
        self._wakes_reader.set()

    def finish(self) -> None:
        """Note that all bytes have come; the iterator ends after the last chunk."""
        self.is_complete = True
        self._stop_clock()
        self._wakes_reader.set()

    def is_silent(self) -> bool:
        """Whether the upload has been without a request for so long that another one may have its slot."""
        return self._silent_since is not None and time.monotonic() - self._silent_since > _SILENT_SECONDS

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await self._wakes_reader.wait()
        if self._chunk is not None:
            chunk, self._chunk = self._chunk, None
            self._has_room.set()
            if not (self.is_complete or self._is_expired):
                self._wakes_reader.clear()
            return chunk
        if self._is_expired:
            raise given_up("Its client did not go on in time.")
        raise StopAsyncIteration

    def _stop_clock(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
