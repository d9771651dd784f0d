"""A file for segments, on disk. Without a name it is gone with the process that wrote it.

It goes through the page cache while twice as much memory is free as it takes. Then sweeps over it need not wait for the
disk, and the kernel takes that memory back when anybody asks for it. Elsewhere it goes past the page cache, where the
file system allows that: what is not there for the next sweep would only drive out what others have there.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import numpy as np

from streamsvm.storage.machine.free_memory import free_memory
from streamsvm.storage.rows.csr import Array

SPILL_SEGMENT = 1 << 19  # small enough to mix several, and as fast as larger ones where disks are fast
_LOOK_EVERY = 64  # segments read or written: to look takes as long as one


class SpillFile:
    """Segments numbered from 0, in whole pages. Raises OSError where the directory's disk has no such files.

    A buffer is one of `make_buffer`. A segment that does not come back as it was written is an OSError.

    segment_bytes  of most of them
    sums, sizes    of each, one that is there already
    free           bytes of memory that are free
    """

    def __init__(
        self,
        path: str | Path,
        segment_bytes: int = SPILL_SEGMENT,
        sums: list[int] | None = None,
        sizes: list[int] | None = None,
        free: Callable[[], int] = free_memory,
    ) -> None:
        flags = os.O_RDWR | os.O_TMPFILE if sums is None else os.O_RDONLY
        self.segment_bytes = segment_bytes
        self._file = os.open(path, flags, 0o600)
        self._free, self._until_look = free, 0
        self.lacked_memory = False  # at some look
        self.sums, self.sizes = sums or [], sizes or []
        self._ends = [0, *accumulate(self.sizes)]
        self.bytes = self._ends[-1]  # on the disk

    @classmethod
    def reopen(cls, path: Path, segment_bytes: int, sums: list[int], sizes: list[int]) -> "SpillFile":
        """Open for reading a file that `link` has named. Raises OSError."""
        return cls(path, segment_bytes, sums, sizes)

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
        if os.pwrite(self._file, buffer, self._ends[-1]) != len(buffer):
            raise OSError("the disk took only part of a segment")
        self.sums.append(_sum(buffer))
        self.sizes.append(len(buffer))
        self._ends.append(self._ends[-1] + len(buffer))
        self.bytes = max(self.bytes, self._ends[-1])

    def read(self, number: int, buffer: mmap.mmap) -> memoryview:
        """Fill the buffer, or its beginning, which is what is returned."""
        self._look_for_memory()
        data = memoryview(buffer)[: self.sizes[number]]
        got = os.preadv(self._file, [data], self._ends[number])
        # A kernel that is given wrong indices reads and writes beyond w.
        if got != self.sizes[number] or _sum(data) != self.sums[number]:
            raise OSError(f"spilled segment {number} did not come back as it was written")
        return data

    def clear(self) -> None:
        """Forget all segments. Their disk stays, to be written again."""
        self.sums.clear()
        self.sizes.clear()
        self._ends = [0]

    def close(self) -> None:
        os.close(self._file)

    def _look_for_memory(self) -> None:
        """Now and then: whether to go through the page cache, or past it."""
        if self._until_look > 0:
            self._until_look -= 1
            return
        self._until_look = _LOOK_EVERY
        fits = self._free() >= 2 * self.bytes
        self.lacked_memory |= not fits
        if self.is_cached and not fits:
            os.fdatasync(self._file)  # what is not yet on the disk cannot be let go
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL) & ~os.O_DIRECT
        with suppress(OSError):  # a file system in memory is its own page cache
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | (0 if fits else os.O_DIRECT))


def make_buffer(segment_bytes: int = SPILL_SEGMENT) -> mmap.mmap:
    """Memory that a disk can write to directly."""
    return mmap.mmap(-1, segment_bytes)


def _sum(buffer: mmap.mmap | memoryview) -> int:
    """Any word that changes changes it; ten times as fast as a CRC."""
    words: Array = np.frombuffer(buffer, np.uint64)
    return int(words.sum())
