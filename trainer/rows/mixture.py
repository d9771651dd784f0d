"""Rows of several segments copied side by side, to be permuted and visited as one.

Which rows share a segment does not change. If the rows of a segment were visited one right after the other, w would
meanwhile be fitted to them alone. Where all rows have something in common, frequent words or a bias, each segment then
pulls w its own way, and training needs up to three times as many sweeps as with all rows permuted. Mixing a segment
with three others, new ones in each sweep, is as good as permuting all rows.
"""

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future

import numpy as np

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_file import RowFile
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, packed_bytes, view
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer

IsActive = Callable[[Array], Array]  # which of the rows with these ids (k,) are to be visited, (k,) bool

SEGMENTS = 4
READS = 2  # at once: a fifth faster than one after the other
_MOST_MIXED = 4 * SEGMENTS  # segments' worth of bytes in a window read from a file: fewer long segments are mixed
_BYTES = 1 << 17  # a kernel call on fewer bytes takes less time than the Python around it


class Mixture:
    """`clear` it, `add` segments until it is rich, and take its `rows`. Memory grows with the largest segment so far.

    It is rich once it has `segments` segments with `least_bytes` together.
    """

    def __init__(self, segments: int = SEGMENTS, least_bytes: int = _BYTES) -> None:
        self._segments, self._least_bytes = segments, least_bytes
        self._largest = max(least_bytes, PAGE)
        self._builder = self._make_builder()
        self._count = 0

    @property
    def is_rich(self) -> bool:
        """Whether it has enough segments."""
        return self._count >= self._segments and _bytes(self.rows) >= self._least_bytes

    @property
    def rows(self) -> Segment:
        """The rows added since `clear`, in order, valid until the next `clear`."""
        return self._builder.rows

    def clear(self) -> None:
        self._builder.clear()
        self._count = 0

    def add(self, rows: Segment, picked: Array | None = None) -> None:
        """Copy the rows at the positions `picked` (k,) int32 of a segment, or all. The mixture must not be rich."""
        if _bytes(rows) > self._largest:
            self._make_room(_bytes(rows))
        _add(self._builder, rows, np.arange(len(rows), dtype=np.int32) if picked is None else picked)
        self._count += 1

    def sweep(
        self, segments: Sequence[Segment], rng: np.random.Generator, picked: Sequence[Array] | None = None
    ) -> Iterator[tuple[list[int], Segment]]:
        """All segments once, in random order, some at a time: yields their numbers, and their (`picked`) rows."""
        order = rng.permutation(len(segments)).tolist()
        return mixed(order, lambda number: (segments[number], picked[number] if picked else None), deque([self]))

    def _make_room(self, segment_bytes: int) -> None:
        self._largest = 1 << (segment_bytes - 1).bit_length()
        rows, self._builder = self.rows, self._make_builder()
        _add(self._builder, rows, np.arange(len(rows), dtype=np.int32))

    def _make_builder(self) -> SegmentBuilder:
        return SegmentBuilder(self._segments * self._largest + PAGE)


def mixed(
    left: list[int], pick: Callable[[int], tuple[Segment, Array | None] | None], mixtures: deque[Mixture]
) -> Iterator[tuple[list[int], Segment]]:
    """Segments mixed, some at a time: yields their numbers, and their rows. Takes numbers from the end of `left`.

    pick      number -> (segment, positions to take or None for all), or None if the segment is gone
    mixtures  used in turn: rows are valid until the turn of their mixture comes again
    """
    while left:
        mixture, numbers = mixtures[0], []
        mixtures.rotate(-1)
        mixture.clear()
        while left and not mixture.is_rich:
            number = left.pop()
            if (found := pick(number)) is not None:
                mixture.add(*found)
                numbers.append(number)
        yield numbers, mixture.rows


def _add(builder: SegmentBuilder, rows: Segment, picked: Array) -> None:
    added = builder.add(rows, picked)
    assert added == len(picked)


def _bytes(rows: Segment) -> int:
    return packed_bytes(len(rows), len(rows.indices), rows.per_row)


class ReadAhead:
    """Reads windows of a few segments from a file. `lent` windows may be in use while READS more are being read."""

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
        """Wait until no window is being read; ignores errors, since nobody uses these windows."""
        while self._coming:
            self._coming.popleft().exception()


def _some_at_a_time(order: list[int], file: SpillFile) -> Iterator[list[int]]:
    """Group these segments into windows: SEGMENTS at a time, fewer where long rows make segments large."""
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
    """Memory for the segments of a window."""

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
        """A segment, valid until the next call."""
        if len(self._buffer) < rows.file.sizes[number]:
            self._buffer = make_buffer(rows.file.sizes[number])
        return view(rows.read(number, self._buffer, READS))
