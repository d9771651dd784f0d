"""Segments of a spill file read ahead, a few taken together at random: windows on the rows, a mixture each."""

import mmap
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from storage.segment import Segment, view
from storage.spill_file import SpillFile, make_buffer
from trainer.disk_pace import DiskPace
from trainer.mixture import SEGMENTS, Mixture

_READS = 2  # at once: a fifth faster than one after the other
_WINDOWS = _READS + 1  # one is being visited


class Windows:
    """`read_ahead` and `take`, again and again: sweeps without end over the segments of one file."""

    def __init__(self, pace: DiskPace) -> None:
        self._pool = ThreadPoolExecutor(_READS)
        self._windows = [_Window(pace) for _ in range(_WINDOWS)]
        self._free = list(self._windows)
        self._coming: deque[Future[_Window]] = deque()
        self._lent: _Window | None = None  # has what the last `take` returned
        self._order: list[int] = []  # segments still to be read in this sweep

    @staticmethod
    def count(n_segments: int) -> int:
        """Number of windows in a sweep."""
        return -(-n_segments // SEGMENTS)

    def read_ahead(self, file: SpillFile, rng: np.random.Generator) -> None:
        """What was taken is not needed any more; have the next windows read. The file has segments."""
        if self._lent is not None:
            self._free.append(self._lent)
            self._lent = None
        while self._free:
            self._order = self._order or rng.permutation(len(file)).tolist()
            numbers, self._order = self._order[:SEGMENTS], self._order[SEGMENTS:]
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
    def __init__(self, pace: DiskPace) -> None:
        self._mixture = Mixture()
        self._buffer: mmap.mmap = make_buffer()
        self._pace = pace

    @property
    def rows(self) -> Segment:
        return self._mixture.rows

    def fill(self, file: SpillFile, numbers: list[int]) -> "_Window":
        self._mixture.clear()
        for number in numbers:
            self._pace.timed(_READS, file.read, number, self._buffer)
            self._mixture.add(view(memoryview(self._buffer)))
        return self
