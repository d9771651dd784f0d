"""A file for segments of one size, on disk. Without a name it is gone with the process that wrote it.

It goes through the page cache while twice as much memory is free as it takes. Then sweeps over it need not wait for the
disk, and the kernel takes that memory back when anybody asks for it. Elsewhere it goes past the page cache, where the
file system allows that: what is not there for the next sweep would only drive out what others have there.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from storage.csr import Array
from storage.free_memory import free_memory

SPILL_SEGMENT = 1 << 19  # small enough to mix several, and as fast as larger ones where disks are fast
_LOOK_EVERY = 64  # segments read or written: to look takes as long as one


class SpillFile:
    """Segments of one size, numbered from 0. Raises OSError where the directory's disk has no such files.

    A buffer is one of `make_buffer`, of the same size. One that does not come back as it was written is an OSError.

    free    bytes of memory that are free
    """

    def __init__(
        self,
        path: str | Path,
        segment_bytes: int = SPILL_SEGMENT,
        sums: list[int] | None = None,
        free: Callable[[], int] = free_memory,
    ) -> None:
        flags = os.O_RDWR | os.O_TMPFILE if sums is None else os.O_RDONLY
        self.segment_bytes = segment_bytes
        self._file = os.open(path, flags, 0o600)
        self._free, self._until_look = free, 0
        self.sums = sums or []
        self.bytes = len(self.sums) * segment_bytes  # on the disk

    @classmethod
    def kept(cls, path: Path, segment_bytes: int, sums: list[int]) -> "SpillFile":
        """One that was given a name, to be read; raises OSError."""
        return cls(path, segment_bytes, sums)

    def link(self, path: Path) -> None:
        """Give it a name on its disk; raises OSError."""
        # With a descriptor of a directory, whichever, the call follows the link to the file itself.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.link(f"/proc/self/fd/{self._file}", path, src_dir_fd=directory, follow_symlinks=True)
        finally:
            os.close(directory)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def is_cached(self) -> bool:
        """Whether it goes through the page cache."""
        return not fcntl.fcntl(self._file, fcntl.F_GETFL) & os.O_DIRECT

    def append(self, buffer: mmap.mmap) -> None:
        """Write one more."""
        self._look_for_memory()
        if os.pwrite(self._file, buffer, len(self) * self.segment_bytes) != self.segment_bytes:
            raise OSError("the disk took only part of a segment")
        self.sums.append(_sum(buffer))
        self.bytes = max(self.bytes, len(self) * self.segment_bytes)

    def read(self, number: int, buffer: mmap.mmap) -> mmap.mmap:
        """Fill the buffer."""
        self._look_for_memory()
        got = os.preadv(self._file, [buffer], number * self.segment_bytes)
        # A kernel that is given wrong indices reads and writes beyond w.
        if got != self.segment_bytes or _sum(buffer) != self.sums[number]:
            raise OSError(f"spilled segment {number} did not come back as it was written")
        return buffer

    def clear(self) -> None:
        """Forget all segments. Their disk stays, to be written again."""
        self.sums.clear()

    def close(self) -> None:
        os.close(self._file)

    def _look_for_memory(self) -> None:
        """Now and then: whether to go through the page cache, or past it."""
        if self._until_look > 0:
            self._until_look -= 1
            return
        self._until_look = _LOOK_EVERY
        fits = self._free() >= 2 * self.bytes
        if self.is_cached and not fits:
            os.fdatasync(self._file)  # what is not yet on the disk cannot be let go
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL) & ~os.O_DIRECT
        with suppress(OSError):  # a file system in memory is its own page cache
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | (0 if fits else os.O_DIRECT))


def make_buffer(segment_bytes: int = SPILL_SEGMENT) -> mmap.mmap:
    """Memory that a disk can write to directly."""
    return mmap.mmap(-1, segment_bytes)


def _sum(buffer: mmap.mmap) -> int:
    """Any word that changes changes it; ten times as fast as a CRC."""
    words: Array = np.frombuffer(buffer, np.uint64)
    return int(words.sum())
