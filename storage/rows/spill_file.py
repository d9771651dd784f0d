"""A file of segments on disk. It has no name, and ends with the process that wrote it, unless `link` names it.

Reads and writes use the page cache while free memory is twice the size of the file: sweeps then need not wait for the
disk, and the kernel can take the memory back at any time. With less free memory they bypass the page cache, where the
file system can do that: pages that do not last until the next sweep would only displace those of other files.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import numpy as np

from streamsvm.storage.machine.resources import free_memory
from streamsvm.storage.rows.csr import Array

SPILL_SEGMENT = 1 << 19  # small enough to mix the rows of several, and as fast as larger ones on fast disks
_LOOK_EVERY = 64  # segments: asking for the free memory takes as long as reading one


class SpillFile:
    """Segments numbered from 0, in whole pages. Raises OSError if the file system has no unnamed files.

    Buffers are those of `make_buffer`. `read` raises OSError for a segment that differs from what was written.

    path           a directory for a new file; with `sums` the file to open for reading
    segment_bytes  size of most segments
    sums, sizes    checksum and size of each segment
    free           tells the bytes of memory that are free
    lacked_memory  whether the page cache has been bypassed at some time
    bytes          bytes that the file takes of the disk
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
        self.lacked_memory = False
        self.sums, self.sizes = sums or [], sizes or []
        self._ends = [0, *accumulate(self.sizes)]
        self.bytes = self._ends[-1]

    @classmethod
    def reopen(cls, path: Path, segment_bytes: int, sums: list[int], sizes: list[int]) -> "SpillFile":
        """Open for reading a file that `link` has named. Raises OSError."""
        return cls(path, segment_bytes, sums, sizes)

    def link(self, path: Path) -> None:
        """Give the file a name on its disk. Raises OSError."""
        # os.link follows the link in /proc to the file only if it is given a descriptor of some directory.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.link(f"/proc/self/fd/{self._file}", path, src_dir_fd=directory, follow_symlinks=True)
        finally:
            os.close(directory)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def is_cached(self) -> bool:
        """Whether reads and writes use the page cache."""
        return not fcntl.fcntl(self._file, fcntl.F_GETFL) & os.O_DIRECT

    def append(self, buffer: mmap.mmap) -> None:
        """Write one more segment."""
        self._look_for_memory()
        if os.pwrite(self._file, buffer, self._ends[-1]) != len(buffer):
            raise OSError("the disk took only part of a segment")
        self.sums.append(_sum(buffer))
        self.sizes.append(len(buffer))
        self._ends.append(self._ends[-1] + len(buffer))
        self.bytes = max(self.bytes, self._ends[-1])

    def read(self, number: int, buffer: mmap.mmap) -> memoryview:
        """Read a segment into the buffer; returns a view of the bytes read."""
        self._look_for_memory()
        data = memoryview(buffer)[: self.sizes[number]]
        got = os.preadv(self._file, [data], self._ends[number])
        # Kernels do not check indices: damaged ones would make them read and write beyond w.
        if got != self.sizes[number] or _sum(data) != self.sums[number]:
            raise OSError(f"spilled segment {number} did not come back as it was written")
        return data

    def clear(self) -> None:
        """Forget all segments. The file keeps its space and writes over it."""
        self.sums.clear()
        self.sizes.clear()
        self._ends = [0]

    def close(self) -> None:
        os.close(self._file)

    def _look_for_memory(self) -> None:
        """Every so many segments, decide whether to use or to bypass the page cache."""
        if self._until_look > 0:
            self._until_look -= 1
            return
        self._until_look = _LOOK_EVERY
        fits = self._free() >= 2 * self.bytes
        self.lacked_memory |= not fits
        if self.is_cached and not fits:
            os.fdatasync(self._file)  # the kernel drops only pages that are on the disk
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL) & ~os.O_DIRECT
        with suppress(OSError):  # a file system in memory cannot bypass the page cache
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | (0 if fits else os.O_DIRECT))


def make_buffer(segment_bytes: int = SPILL_SEGMENT) -> mmap.mmap:
    """Page-aligned memory, as O_DIRECT needs it."""
    return mmap.mmap(-1, segment_bytes)


def _sum(buffer: mmap.mmap | memoryview) -> int:
    """A checksum: any single changed word changes it. Ten times as fast as a CRC."""
    words: Array = np.frombuffer(buffer, np.uint64)
    return int(words.sum())
