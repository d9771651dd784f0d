"""Writes to a process through a pipe, in a thread: one piece is written while the next one arrives."""

import asyncio
import fcntl
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

_PIPE_BYTES = 1 << 20  # the default limit for an unprivileged process (pipe-max-size)
_PIECE_BYTES = 1 << 18  # small enough to be in the processor's cache when it is written
_MOST_PARTS = 512  # IOV_MAX is 1024


class PipeWriter:
    """`feed` chunks, then `close`. `reading` is the process's end; close it here once the process has been started."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        # With the usual 64 KiB the process would wait 16 times a megabyte, on busy cores for milliseconds each. The
        # call fails, and the pipe stays small, if this user's pipes are at their limit together.
        with suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._thread = ThreadPoolExecutor(1, "pipe")
        self._under_way: Future[None] | None = None

    async def feed(self, chunk: bytes) -> None:
        """Queue a chunk; waits while one piece is being written and another is full. Raises BrokenPipeError."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size >= _PIECE_BYTES or len(self._parts) >= _MOST_PARTS:
            await self._flush()

    async def close(self) -> None:
        """Write the remaining chunks and end the process's input. Raises BrokenPipeError."""
        try:
            await self._flush()
            await self._written()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the pipe now, or when the running write ends; it fails when the process stops reading."""
        if self._under_way is None or self._under_way.done():
            self._close()
        else:
            self._under_way.add_done_callback(lambda _: self._close())
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    async def _flush(self) -> None:
        await self._written()
        parts, self._parts, self._size = self._parts, [], 0
        self._under_way = self._thread.submit(_write, self._writing, parts)

    async def _written(self) -> None:
        """Wait until the last piece is in the pipe."""
        if self._under_way is not None:
            await asyncio.wrap_future(self._under_way)


def _write(descriptor: int, parts: list[bytes]) -> None:
    rest = [memoryview(part) for part in parts]
    while rest:
        written = os.writev(descriptor, rest)
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]
