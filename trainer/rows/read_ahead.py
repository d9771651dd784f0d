"""Segments of a file read ahead, a few taken together at random: windows on the rows, a mixture each."""

import mmap
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

import numpy as np

from storage.segment import Segment, view
from storage.spill_file import SpillFile, make_buffer
from trainer.rows.mixture import SEGMENTS, Mixture
from trainer.rows.patience import Patience

READS = 2  # at once: a fifth faster than one after the other


class ReadAhead:
    """Windows on the rows of a file. `lent` of them may be in use at a time, two more are being read."""

    def __init__(self, segment_bytes: int, patience: Patience, pool: Executor, lent: int) -> None:
        self._pool = pool
        self._coming: deque[Future[Segment]] = deque()
        self._windows = deque(_Window(segment_bytes, patience) for _ in range(lent + READS))

    def windows(self, file: SpillFile, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once; each window is valid until `lent` more have been taken. Raises OSError."""
        order = rng.permutation(len(file)).tolist()
        try:
            for start in range(0, len(order), SEGMENTS):
                window = self._windows.popleft()
                self._windows.append(window)
                self._coming.append(self._pool.submit(window.fill, file, order[start : start + SEGMENTS]))
                if len(self._coming) >= READS:
                    yield self._coming.popleft().result()
            while self._coming:
                yield self._coming.popleft().result()
        finally:
            self.drain()

    def drain(self) -> None:
        """Wait for what is being read, whatever it is: it is of no use any more."""
        while self._coming:
            self._coming.popleft().exception()


class _Window:
    def __init__(self, segment_bytes: int, patience: Patience) -> None:
        self._mixture = Mixture()
        self._buffer: mmap.mmap = make_buffer(segment_bytes)
        self._patience = patience

    def fill(self, file: SpillFile, numbers: list[int]) -> Segment:
        self._mixture.clear()
        for number in numbers:
            self._patience.timed(len(self._buffer), READS, lambda: file.read(number, self._buffer))  # noqa: B023
            if self._patience.is_over:
                raise OSError("the disk is slow")
            self._mixture.add(view(memoryview(self._buffer)))
        return self._mixture.rows
