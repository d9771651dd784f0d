"""Disks for tests: what they refuse, and when, is said by arguments."""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer
from streamsvm.trainer.rows.disk import DiskRows, OpenStored

SMALL = 4 << 10  # bytes: many segments for a few rows
PLENTY = 1 << 40


class Disk:
    """Free space and speed to be set; `calls` counts what has been asked of it. Fails where `fails` says so.

    is_gone files that are closed say so, too
    fails   given ("read" or "append", the call's number from 1), raises or does nothing
    second  each segment takes so many seconds
    """

    def __init__(self, fails: Callable[[str, int], object] = lambda kind, call: None) -> None:
        self.free = PLENTY
        self.is_gone = False
        self.seconds = 0.0
        self.second = 0.0
        self.calls = {"append": 0, "read": 0}
        self.fails = fails
        self.files: list[File] = []

    def rows(
        self, directory: str | None, lent: int = 1, open_stored: OpenStored | None = None, segment_bytes: int = SMALL
    ) -> DiskRows:
        """DiskRows on it."""
        health = partial(DiskHealth, free=lambda _: self.look(), clock=lambda: self.seconds)
        return DiskRows(directory, lent, open_stored, segment_bytes, health, self.file)

    def look(self) -> int:
        """Bytes that are free."""
        return self.free

    def file(self, directory: str, segment_bytes: int) -> SpillFile:
        self.files.append(File(self, directory, segment_bytes))
        return self.files[-1]

    def asked(self, kind: str) -> None:
        """A segment is read or written."""
        self.calls[kind] += 1
        self.seconds += self.second
        self.fails(kind, self.calls[kind])


class File(SpillFile):
    """On a Disk."""

    def __init__(self, disk: Disk, *args: Any) -> None:
        super().__init__(*args)
        self._disk = disk
        self.is_closed = False

    def append(self, buffer: Any) -> None:
        self._disk.asked("append")
        super().append(buffer)

    def read(self, number: int, buffer: Any) -> Any:
        self._disk.asked("read")
        return super().read(number, buffer)

    def damage(self, number: int) -> None:
        """Have a bit of a segment change on the disk."""
        buffer = super().read(number, make_buffer(self.segment_bytes))
        buffer[self.segment_bytes // 3] ^= 1
        os.pwrite(self._file, buffer, number * self.segment_bytes)

    def close(self) -> None:
        self.is_closed = True
        super().close()
        if self._disk.is_gone:
            raise OSError(errno.EIO, "the disk is gone")


def refuses(wanted: str, at: int) -> Callable[[str, int], None]:
    """A disk that fails from the given read or write on."""

    def fails(kind: str, call: int) -> None:
        if kind == wanted and call >= at:
            raise OSError(errno.EIO, "the disk is gone")

    return fails
