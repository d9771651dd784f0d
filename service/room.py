"""Limits the disk space of rows to predict and of unfinished answers, for all clients together and for each client."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.shares import share_of

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
