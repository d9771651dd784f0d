"""Windows on the rows of a file: some segments side by side, read ahead of the visits."""

import mmap
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

import numpy as np

from streamsvm.storage.rows.row_file import RowFile
from streamsvm.storage.rows.segment import Segment, view
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer
from streamsvm.trainer.rows.mixture import SEGMENTS, Mixture

READS = 2  # at once: a fifth faster than one after the other
_MOST_MIXED = 4 * SEGMENTS  # times segment_bytes: size of a window, so that fewer segments of long rows are mixed


class ReadAhead:
    """Windows of some segments each. `lent` may be in use at a time, two more are being read."""

    def __init__(self, pool: Executor, lent: int) -> None:
        self._pool = pool
        self._coming: deque[Future[Segment]] = deque()
        self._windows = deque(_Window() for _ in range(lent + READS))

    def windows(self, rows: RowFile, rng: np.random.Generator | None) -> Iterator[Segment]:
        """All rows once, some segments mixed, or in order, without `rng`. Raises OSError.

        Each window is valid until `lent` more have been taken.
        """
        groups: Iterator[list[int]] = ([number] for number in range(len(rows.file)))
        if rng is not None:
            groups = _some_at_a_time(rng.permutation(len(rows.file)).tolist(), rows.file)
        try:
            for numbers in groups:
                window = self._windows.popleft()
                self._windows.append(window)
                self._coming.append(self._pool.submit(window.fill, rows, numbers))
                if len(self._coming) >= READS:
                    yield self._coming.popleft().result()
            while self._coming:
                yield self._coming.popleft().result()
        finally:
            self.drain()

    def drain(self) -> None:
        """Wait until pending reads have ended; their rows and errors are dropped."""
        while self._coming:
            self._coming.popleft().exception()


def _some_at_a_time(order: list[int], file: SpillFile) -> Iterator[list[int]]:
    """Groups of segments to mix: SEGMENTS at a time, or fewer if they are long."""
    some: list[int] = []
    n_bytes, most_bytes = 0, _MOST_MIXED * file.segment_bytes
    for number in order:
        if len(some) == SEGMENTS or (some and n_bytes + file.sizes[number] > most_bytes):
            yield some
            some, n_bytes = [], 0
        some.append(number)
        n_bytes += file.sizes[number]
    if some:
        yield some


class _Window:
    """Memory for some segments side by side, or for one."""

    def __init__(self) -> None:
        self._mixture = Mixture()
        self._buffer: mmap.mmap = make_buffer()

    def fill(self, rows: RowFile, numbers: list[int]) -> Segment:
        if len(numbers) == 1:
            return self._read(rows, numbers[0])
        self._mixture.clear()
        for number in numbers:
            self._mixture.add(self._read(rows, number))
        return self._mixture.rows

    def _read(self, rows: RowFile, number: int) -> Segment:
        """Read a segment; it is valid until the next call."""
        if len(self._buffer) < rows.file.sizes[number]:
            self._buffer = make_buffer(rows.file.sizes[number])
        return view(rows.read(number, self._buffer, READS))
