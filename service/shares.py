"""Divides an amount among clients: no client gets all of it, and waiting clients take turns; limits disk space so."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from streamsvm.service.errors import ServiceError, needing_space

# Bytes a second. A client slower than this may lose its amount if another client waits for it.
LEAST_RATE = 10_000.0


def share_of(total: int) -> int:
    """Return how much of `total` one client may have: three quarters, at least 1."""
    return max(1, total * 3 // 4)


class Shares:
    """Divides `total` among clients; each holds at most its share, `share_of(total)`. Used in one event loop.

    A client calls `take` or `wait`, then `give_back` with the same amount. An amount above the share counts as a share.
    """

    def __init__(self, total: int) -> None:
        self._total, self._each = total, share_of(total)
        self._held: dict[str, int] = {}
        # client -> its waiting requests, the longest first; the first client is the next one to have a turn.
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    @property
    def in_use(self) -> int:
        """The amount that clients hold."""
        return sum(self._held.values())

    def is_wanted(self, client: str) -> bool:
        """Whether a request waits that could get what `client` holds: its own, or one of a client below its share."""
        return any(
            waiting and (other == client or self._has_room(other, waiting[0][0]))
            for other, waiting in self._waiting.items()
        )

    def take(self, client: str, amount: int = 1) -> bool:
        """Take an amount if it is free now and nobody waits; return whether it was taken."""
        amount = min(amount, self._each)
        if self._waiting or not self._has_room(client, amount) or not self._is_free(amount):
            return False
        self._hold(client, amount)
        return True

    async def wait(self, client: str, amount: int = 1) -> None:
        """Wait for this client's turn, and take an amount."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine = min(amount, self._each), turn
        self._waiting.setdefault(client, deque()).append(mine)
        self._deal()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(client, amount)
            else:
                self._leave(client, mine)
            raise

    def give_back(self, client: str, amount: int = 1) -> None:
        """Give back an amount that `take` or `wait` took."""
        self._held[client] -= min(amount, self._each)
        if not self._held[client]:
            del self._held[client]
        self._deal()

    def _leave(self, client: str, mine: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting.get(client, deque())
        if mine in waiting:
            waiting.remove(mine)
        self._deal()

    def _deal(self) -> None:
        """Give the free amount to waiting clients, one after the other."""
        while (client := self._next()) is not None:
            waiting = self._waiting.pop(client)
            amount, turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting
            self._hold(client, amount)
            turn.set_result(None)

    def _next(self) -> str | None:
        """Return the client whose turn it is; None if nobody waits, or too little is free for that client.

        Clients whose next request would exceed their share are skipped; no other client is overtaken.
        """
        for client, waiting in list(self._waiting.items()):
            # A cancelled request is still in the queue until its task runs and calls `_leave`.
            while waiting and waiting[0][1].cancelled():
                waiting.popleft()
            if not waiting:
                del self._waiting[client]
                continue
            if self._has_room(client, waiting[0][0]):
                return client if self._is_free(waiting[0][0]) else None
        return None

    def _has_room(self, client: str, amount: int) -> bool:
        return self._held.get(client, 0) + amount <= self._each

    def _is_free(self, amount: int) -> bool:
        return self.in_use + amount <= self._total

    def _hold(self, client: str, amount: int) -> None:
        self._held[client] = self._held.get(client, 0) + amount


_FREE_SHARE = 4  # answers may fill a quarter of the free space; uploads, jobs and models need the rest
_IN_MEMORY_BYTES = 1 << 16
_HINT = "Ask for less at a time, or later; streamsvm predict needs no disk space."


class Room:
    """Limits the files of a directory to `most` bytes, and to a quarter of the bytes free on its disk. Thread-safe.

    free_bytes  a function that returns the free bytes of a directory's disk
    """

    def __init__(self, directory: Path, most: int, free_bytes: Callable[[Path], int] | None = None) -> None:
        self.directory = directory
        self._most = most
        self._free_bytes = free_bytes or (lambda place: shutil.disk_usage(place).free)
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}

    @property
    def in_use(self) -> int:
        """The bytes that all open files hold."""
        return sum(self._held.values())

    def file(self, client: str) -> "RoomFile":
        """Make an unnamed file whose bytes count for the client; the file stays in memory while it is small."""
        return RoomFile(self, client)

    @contextmanager
    def spooled(self, client: str, chunks: Iterable[bytes]) -> Iterator[IO[bytes]]:
        """Yield a file with the chunks, for a parser that has to seek. Raises what RoomFile.write raises."""
        with self.file(client) as stored:
            stored.writelines(chunks)
            with os.fdopen(os.dup(stored.fileno()), "rb") as file:
                file.seek(0)
                yield file

    def take(self, client: str, count: int) -> None:
        """Count `count` more bytes for a client. Raises ServiceError answer_too_large, out_of_space."""
        with self._lock:
            of_client, of_all = self._held.get(client, 0) + count, self.in_use + count
            total = min(self._most, (self._free_bytes(self.directory) + self.in_use) // _FREE_SHARE)
            if of_client > (share := share_of(self._most)):
                message = f"rows of one client and answers to it would take more than {share} bytes of disk"
                raise ServiceError("answer_too_large", message, _HINT)
            if of_client > share_of(total) or of_all > total:
                raise ServiceError("out_of_space", "answers fill the disk space that is meant for them", _HINT)
            self._held[client] = of_client

    def give_back(self, client: str, count: int) -> None:
        """Stop counting `count` bytes that the client took."""
        with self._lock:
            self._held[client] -= count
            if not self._held[client]:
                del self._held[client]


class RoomFile:
    """A binary file. The `size` bytes that were written count for the file's client until the file is closed."""

    def __init__(self, room: Room, client: str) -> None:
        self._room, self._client = room, client
        self.size = 0
        self._opened: Any = None
        self._is_closed = False

    @property
    def _file(self) -> Any:
        """The temporary file, which the first use creates."""
        if self._opened is None:
            directory = str(self._room.directory)
            self._opened = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=directory)  # noqa: SIM115
        return self._opened

    def write(self, data: bytes) -> int:
        """Append bytes, with the position at the end. Raises ServiceError answer_too_large, out_of_space."""
        if self._is_closed:  # a thread may still write after its request has ended
            raise ValueError("the file is closed")
        self._room.take(self._client, len(data))
        self.size += len(data)
        with needing_space():
            return self._file.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Append the pieces, which are bytes, one after the other. Raises what `write` raises."""
        for piece in pieces:
            self.write(piece)

    def read(self, count: int = -1) -> bytes:
        """Read `count` bytes from the current position, fewer at the end of the file; -1: all that follow."""
        return self._file.read(count)

    def seek(self, place: int) -> int:
        """Move to byte `place` of the file. Raises ServiceError out_of_space: buffered bytes may have to go to disk."""
        with needing_space():
            return self._file.seek(place)

    def fileno(self) -> int:
        """Write all bytes to the disk, and return the file's descriptor. Raises ServiceError out_of_space."""
        with needing_space():
            number = self._file.fileno()
            self._file.flush()
        return number

    def close(self) -> None:
        """Close the file, whose bytes then count no more; a second call does nothing."""
        self._is_closed = True
        if self._opened is not None:
            self._opened.close()
        taken, self.size = self.size, 0
        if taken:
            self._room.give_back(self._client, taken)

    def __enter__(self) -> "RoomFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
