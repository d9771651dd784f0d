"""Disk for answers that are being made or sent: bounded for all and for each client, and given back at once."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.service.shares import share_of

# Uploads, jobs and models have the rest of what is free.
_FREE_SHARE = 4
_IN_MEMORY_BYTES = 1 << 16
_HINT = "Ask for less at a time, or later; streamsvm predict needs no room."


class Room:
    """At most `most` bytes below a directory, and a quarter of what is free there; used by any thread.

    free_bytes  of the directory's disk, now
    """

    def __init__(self, directory: Path, most: int, free_bytes: Callable[[Path], int] | None = None) -> None:
        self.directory = directory
        self._most = most
        self._free_bytes = free_bytes or _free_bytes
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}

    @property
    def in_use(self) -> int:
        """Bytes of all files."""
        return sum(self._held.values())

    def file(self, client: str) -> "RoomFile":
        """A new file without a name, in memory while it is small."""
        return RoomFile(self, client)

    def take(self, client: str, count: int) -> None:
        """So many bytes more for a client. Raises ServiceError answer_too_large, out_of_space."""
        with self._lock:
            own, held = self._held.get(client, 0) + count, self.in_use + count
            total = min(self._most, (self._free_bytes(self.directory) + self.in_use) // _FREE_SHARE)
            if own > share_of(self._most):
                raise _too_large(share_of(self._most))
            if own > share_of(total) or held > total:
                raise ServiceError("out_of_space", "answers take all of the disk that is for answers", _HINT)
            self._held[client] = own

    def give_back(self, client: str, count: int) -> None:
        """Give back `count` bytes that the client took."""
        with self._lock:
            self._held[client] -= count
            if not self._held[client]:
                del self._held[client]


class RoomFile:
    """A binary file whose bytes count as its client's until it is closed."""

    def __init__(self, room: Room, client: str) -> None:
        self._room, self._client = room, client
        self._taken = 0
        self._opened: Any = None
        self._is_closed = False

    @property
    def _file(self) -> Any:
        """Made when something is written, or asked for."""
        if self._opened is None:
            directory = str(self._room.directory)
            self._opened = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=directory)  # noqa: SIM115
        return self._opened

    def write(self, data: bytes) -> int:
        """At the end. ServiceError answer_too_large, out_of_space."""
        if self._is_closed:  # a thread may go on after the end of its request
            raise ValueError("the file is closed")
        self._room.take(self._client, len(data))
        self._taken += len(data)
        with needing_space():
            return self._file.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """One after the other, as `write`."""
        for piece in pieces:
            self.write(piece)

    def read(self, count: int = -1) -> bytes:
        """From where it is."""
        return self._file.read(count)

    def seek(self, place: int) -> int:
        """ServiceError out_of_space: what was not on disk yet may have to go there."""
        with needing_space():
            return self._file.seek(place)

    def fileno(self) -> int:
        """The descriptor of the file on disk, with all that was written."""
        with needing_space():
            number = self._file.fileno()
            self._file.flush()
        return number

    def close(self) -> None:
        """The bytes are given back. It may be closed already."""
        self._is_closed = True
        if self._opened is not None:
            self._opened.close()
        taken, self._taken = self._taken, 0
        if taken:
            self._room.give_back(self._client, taken)

    def __enter__(self) -> "RoomFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _too_large(share: int) -> ServiceError:
    message = f"the answers to one client would take more than {share} bytes of disk"
    return ServiceError("answer_too_large", message, _HINT)


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free
