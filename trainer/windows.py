"""Segments of a spill file read ahead, a few taken together at random: a window on the rows, permuted as one.

Rows that are always visited one right after the other are fitted to each other first, and their neighbours in memory
never change: with one segment at a time a sweep brings half as much as with all rows permuted, or a fifth where few
rows decide. With each segment's rows among those of three others, new ones in each sweep, nothing of it is left.
"""

import mmap
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from storage.segment import Segment, SegmentBuilder, view
from storage.spill_file import SpillFile, make_buffer
from trainer.disk_pace import DiskPace

_SEGMENTS = 4  # in a window
_READS = 2  # at once: a fifth faster than one after the other
_WINDOWS = _READS + 1  # one is being visited


class Windows:
    """`read_ahead` and `take`, again and again: sweeps without end over the segments of one file."""

    def __init__(self, segment_bytes: int, pace: DiskPace) -> None:
        self._pool = ThreadPoolExecutor(_READS)
        self._windows = [_Window(segment_bytes, pace) for _ in range(_WINDOWS)]
        self._free = list(self._windows)
        self._coming: deque[Future[_Window]] = deque()
        self._lent: _Window | None = None  # has what the last `take` returned
        self._order: list[int] = []  # segments still to be read in this sweep

    @staticmethod
    def count(n_segments: int) -> int:
        """Number of windows in a sweep."""
        return -(-n_segments // _SEGMENTS)

    def read_ahead(self, file: SpillFile, rng: np.random.Generator) -> None:
        """What was taken is not needed any more; have the next windows read. The file has segments."""
        if self._lent is not None:
            self._free.append(self._lent)
            self._lent = None
        while self._free:
            self._order = self._order or rng.permutation(len(file)).tolist()
            numbers, self._order = self._order[:_SEGMENTS], self._order[_SEGMENTS:]
            self._coming.append(self._pool.submit(self._free.pop().fill, file, numbers))

    @property
    def is_ready(self) -> bool:
        """Whether `take` would return at once."""
        return self._coming[0].done()

    def take(self) -> Segment:
        """The next window's rows, valid until the next `read_ahead`. Raises OSError."""
        self._lent = self._coming.popleft().result()
        return self._lent.rows

    def forget(self) -> None:
        """Read no more of this file."""
        for coming in self._coming:
            coming.exception()  # whatever it is, it is of no use any more
        self._coming.clear()
        self._order.clear()
        self._lent = None
        self._free = list(self._windows)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class _Window:
    def __init__(self, segment_bytes: int, pace: DiskPace) -> None:
        self._builder = SegmentBuilder(_SEGMENTS * segment_bytes)
        self._buffer: mmap.mmap = make_buffer()
        self._pace = pace

    @property
    def rows(self) -> Segment:
        return self._builder.rows

    def fill(self, file: SpillFile, numbers: list[int]) -> "_Window":
        self._builder.clear()
        for number in numbers:
            self._pace.timed(_READS, file.read, number, self._buffer)
            rows = view(memoryview(self._buffer))
            self._builder.add(rows, np.arange(len(rows), dtype=np.int32))
        return self
