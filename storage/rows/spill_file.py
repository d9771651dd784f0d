"""Packs rows into segments, in an unnamed file on disk, which the kernel deletes when the process that wrote it ends.

The first segments, as many as `PageBudget` allows, stay in the page cache. Other segments are read and written past the
page cache, if the file system supports that.
"""

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.machine.resources import PageBudget, free_memory
from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import PER_VALUE, PLAIN_ROW, Segment, SegmentBuilder, bytes_of, view


def bytes_alone(length: int, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> int:
    """Return the bytes, in whole pages, of a segment that holds one row of `length` values."""
    return -(-bytes_of(1, length, per_row, per_value) // PAGE) * PAGE


class Packer:
    """Packs rows into segments of `segment_bytes`; a row that does not fit gets its own larger segment."""

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._builder = SegmentBuilder(segment_bytes)

    def add(self, rows: Segment, picked: Array) -> Iterator[bytes]:
        """Add the rows at the positions `picked` (k,) int32; yield each segment that becomes full."""
        while len(picked := picked[self._builder.add(rows, picked) :]):
            length = int(rows.indptr[picked[0] + 1] - rows.indptr[picked[0]])
            row_bytes = bytes_alone(length, rows.per_row, rows.per_value)
            if row_bytes > self._segment_bytes:
                alone = SegmentBuilder(row_bytes)
                alone.add(rows, picked[:1])
                yield alone.take()
                picked = picked[1:]
            else:
                yield self._builder.take()

    def rest(self) -> Iterator[bytes]:
        """Yield a segment with the rows that have not filled a segment yet, if there are such rows."""
        if not self._builder.is_empty:
            yield self._builder.take()

    def clear(self) -> None:
        """Drop the rows that have not filled a segment yet."""
        self._builder.clear()


SPILL_SEGMENT = 1 << 19  # bytes: small enough to mix rows of several segments, and as fast as larger ones on fast disks


class SpillFile:
    """A file of segments, numbered from 0, in whole pages. Raises OSError if the file system has no unnamed files.

    Buffers must come from `make_buffer`. `read` raises OSError for a segment that differs from the one written.

    path           the directory in which the file is made
    segment_bytes  size of most segments; a row that is too long has a larger segment
    sums, sizes    checksum and size in bytes of each segment
    free           returns the number of free bytes of memory
    budget         decides which of the file's bytes the page cache is to hold
    bytes          bytes of disk that the file takes
    """

    def __init__(
        self,
        path: str | Path,
        segment_bytes: int = SPILL_SEGMENT,
        free: Callable[[], int] = free_memory,
    ) -> None:
        self.segment_bytes = segment_bytes
        self._file = os.open(path, os.O_RDWR | os.O_TMPFILE, 0o600)
        self._direct = self._file
        with suppress(OSError):  # a file system in memory cannot bypass the page cache
            self._direct = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_DIRECT)
        self.budget = PageBudget(free)
        self.sums: list[int] = []
        self.sizes: list[int] = []
        self._ends = [0]
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.sums)

    def append(self, buffer: mmap.mmap) -> None:
        """Write the segment in `buffer` after all others."""
        if os.pwrite(self._way(self._ends[-1] + len(buffer)), buffer, self._ends[-1]) != len(buffer):
            raise OSError("the disk took only part of a segment")
        self.sums.append(_sum(buffer))
        self.sizes.append(len(buffer))
        self._ends.append(self._ends[-1] + len(buffer))
        self.bytes = max(self.bytes, self._ends[-1])

    def read(self, number: int, buffer: mmap.mmap) -> memoryview:
        """Read a segment into `buffer`; return the part of the buffer that holds it."""
        data = memoryview(buffer)[: self.sizes[number]]
        got = os.preadv(self._way(self._ends[number + 1]), [data], self._ends[number])
        # Kernels do not check indices: damaged ones would make them read and write beyond w.
        if got != self.sizes[number] or _sum(data) != self.sums[number]:
            raise OSError(f"spilled segment {number} did not come back as it was written")
        return data

    def clear(self) -> None:
        """Remove all segments. The file keeps its space on the disk; new segments overwrite it."""
        self.sums.clear()
        self.sizes.clear()
        self._ends = [0]

    def close(self) -> None:
        for file in {self._file, self._direct}:
            os.close(file)

    def _way(self, end: int) -> int:
        """Return the file descriptor for the segment that ends at offset `end`: through the page cache, or past it."""
        before, is_held = self.budget.held_bytes, self.budget.holds(end)
        if self.budget.held_bytes < min(before, self.bytes):
            os.fdatasync(self._file)  # the kernel drops only pages that are on the disk
            os.posix_fadvise(self._file, self.budget.held_bytes, 0, os.POSIX_FADV_DONTNEED)
        return self._file if is_held else self._direct


def make_buffer(segment_bytes: int = SPILL_SEGMENT) -> mmap.mmap:
    """Allocate a page-aligned buffer, which O_DIRECT requires."""
    return mmap.mmap(-1, segment_bytes)


def _sum(buffer: mmap.mmap | memoryview) -> int:
    """Return a checksum, which changes if any single word changes. It is ten times as fast as a CRC."""
    words: Array = np.frombuffer(buffer, np.uint64)
    return int(words.sum())


_WRITE_BEHIND = 8  # most segments that may wait to be written, so that `add` need not wait in short pauses of the disk


class RowFile:
    """A file of rows: `add` rows, `finish`, read each `segment`; `clear` empties it. Raises OSError if the disk fails.

    writer    an executor of one thread, so that segments are written in order
    is_whole  every added row has been or will be written; False: the disk had no room
    segment_bytes, sizes  size in bytes of most segments, and of each one
    """

    def __init__(self, file: SpillFile, health: DiskHealth, writer: Executor) -> None:
        self.file = file
        self.segment_bytes, self.sizes = file.segment_bytes, file.sizes
        self._health = health
        self._writer = writer
        self._packer = Packer(file.segment_bytes)
        self._spare = [make_buffer(file.segment_bytes) for _ in range(_WRITE_BEHIND)]
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self._behind = 0  # bytes of the segments in `_writing`
        self._others = 0
        self.is_whole = True

    @property
    def lacked_memory(self) -> bool:
        """Whether the page cache could not hold the whole file, see `PageBudget.lacked_memory`."""
        return self.file.budget.lacked_memory

    @property
    def taken(self) -> int:
        """Bytes of disk that the file takes, including segments that wait to be written."""
        return self.file.bytes + self._behind

    def add(self, rows: Segment, picked: Array, others: int = 0) -> None:
        """Add the rows at the positions `picked` (k,), unless the disk has had no room.

        others   bytes that other files of the job take on the same disk
        """
        self._others = others
        if self.is_whole:
            self._write(self._packer.add(rows, picked))

    def finish(self) -> bool:
        """Write all rows that are not written yet, and wait; return `is_whole`."""
        if self.is_whole:
            self._write(self._packer.rest())
        self._await(0)
        return self.is_whole

    def __len__(self) -> int:
        return len(self.file)

    def segment(self, number: int, at_once: int, memory: Callable[[int], mmap.mmap]) -> Segment:
        """Read segment `number` into the buffer memory(size); `at_once` threads read. Raises OSError, also DiskSlow."""
        size = self.file.sizes[number]
        data = self._health.timed(size, at_once, lambda: self.file.read(number, memory(size)))
        self._health.check()
        return view(data)

    def clear(self) -> None:
        """Remove all rows. The file keeps its space on the disk; new rows overwrite it."""
        self._await(0)
        self._packer.clear()
        self.file.clear()
        self.is_whole = True

    def close(self) -> None:
        for writing, _ in self._writing:
            writing.exception()
        self.file.close()

    def _write(self, segments: Iterator[bytes]) -> None:
        for segment in segments:
            if not self._health.allows(self.taken + self._others, len(segment)):
                self.is_whole = False
                return
            self._await(_WRITE_BEHIND * self.file.segment_bytes - len(segment))
            self._health.check()
            buffer = self._spare.pop() if len(segment) == self.file.segment_bytes else make_buffer(len(segment))
            buffer[:] = segment
            append = partial(self.file.append, buffer)
            self._writing.append((self._writer.submit(self._health.timed, len(buffer), 1, append), buffer))
            self._behind += len(segment)

    def _await(self, but: int) -> None:
        """Wait until at most `but` bytes of segments wait to be written."""
        while self._writing and self._behind > but:
            writing, buffer = self._writing.popleft()
            self._behind -= len(buffer)
            if len(buffer) == self.file.segment_bytes:
                self._spare.append(buffer)
            writing.result()
