"""Copies rows of several segments side by side, so that they are permuted and visited together.

Which rows share a segment does not change. If the rows of a segment were visited one right after the other, w would
meanwhile be fitted to them alone. Where all rows have something in common, frequent words or a bias, each segment then
pulls w its own way, and training needs up to three times as many sweeps as with all rows permuted. Mixing a segment
with three others, new ones in each sweep, is as good as permuting all rows.
"""

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, packed_bytes
from streamsvm.storage.rows.spill_file import make_buffer

IsActive = Callable[[Array], Array]  # ids of rows (k,) -> which of the rows are to be visited, (k,) bool

SEGMENTS = 4
_LEAST_READS = 2  # reads at the same time: a fifth faster than one read after the other
_MOST_MIXED = 4 * SEGMENTS  # segments' worth of bytes in a window read from a file: fewer long segments are mixed
_BYTES = 1 << 17  # least bytes of a mixture: a kernel call on fewer takes less time than the Python around it


class Mixture:
    """A buffer that mixes segments: `clear` it, `add` segments until it `is_rich`, and take its `rows`.

    It is rich when it has `segments` segments, and `least_bytes` bytes. Its memory grows with the largest segment.
    """

    def __init__(self, segments: int = SEGMENTS, least_bytes: int = _BYTES) -> None:
        self._segments, self._least_bytes = segments, least_bytes
        self._largest = max(least_bytes, PAGE)
        self._builder = self._make_builder()
        self._count = 0

    @property
    def is_rich(self) -> bool:
        """Whether the mixture has enough segments and bytes."""
        return self._count >= self._segments and _bytes(self.rows) >= self._least_bytes

    @property
    def rows(self) -> Segment:
        """The rows added since `clear`, in order, valid until the next `clear`."""
        return self._builder.rows

    def clear(self) -> None:
        self._builder.clear()
        self._count = 0

    def add(self, rows: Segment, picked: Array | None = None) -> None:
        """Copy a segment's rows at the positions `picked` (k,) int32, or all rows. The mixture must not be rich."""
        if _bytes(rows) > self._largest:
            self._make_room(_bytes(rows))
        _add(self._builder, rows, np.arange(len(rows), dtype=np.int32) if picked is None else picked)
        self._count += 1

    def sweep(
        self, segments: Sequence[Segment], rng: np.random.Generator, picked: Sequence[Array] | None = None
    ) -> Iterator[tuple[list[int], Segment]]:
        """Go through all segments once, in random order, and mix the rows of several segments at a time.

        Yields the numbers of the segments mixed, and a segment of their rows, of which `picked` selects some.
        """
        order = rng.permutation(len(segments)).tolist()
        return mixed(order, lambda number: (segments[number], picked[number] if picked else None), deque([self]))

    def _make_room(self, segment_bytes: int) -> None:
        self._largest = segment_bytes * 9 // 8
        rows, self._builder = self.rows, self._make_builder()
        _add(self._builder, rows, np.arange(len(rows), dtype=np.int32))

    def _make_builder(self) -> SegmentBuilder:
        return SegmentBuilder(self._segments * self._largest + PAGE)


def mixed(
    left: list[int], pick: Callable[[int], tuple[Segment, Array | None] | None], mixtures: deque[Mixture]
) -> Iterator[tuple[list[int], Segment]]:
    """Mix segments, some at a time: yield their numbers, and their rows. Takes numbers from the end of `left`.

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
    if len(rows.indices):
        builder.write_indices()
    added = builder.add(rows, picked)
    assert added == len(picked)


def _bytes(rows: Segment) -> int:
    return packed_bytes(len(rows), len(rows.values), rows.per_row)  # as if each value had an index, which it may get


class Stored(Protocol):
    """Rows on disk, in segments."""

    @property
    def sizes(self) -> Sequence[int]:
        """Decoded bytes of each segment."""

    @property
    def segment_bytes(self) -> int:
        """Decoded bytes of most segments, or an upper bound of them."""

    def __len__(self) -> int:
        """Number of segments."""

    def segment(self, number: int, at_once: int, memory: Callable[[int], mmap.mmap]) -> Segment:
        """Return segment `number`; `at_once` threads are reading. Raises OSError.

        memory  size in bytes -> buffer that may hold the segment, which is valid until the buffer is used again
        """


class ReadAhead:
    """Reads windows of a few segments, by threads. `lent` windows may be in use while `at_once` more are being read."""

    def __init__(self, lent: int) -> None:
        self.at_once = max(_LEAST_READS, lent // 2)  # to decode rows takes about half as long as to visit them
        self.pool = ThreadPoolExecutor(self.at_once)
        self._coming: deque[Future[Segment]] = deque()
        self._windows = deque(_Window(self.at_once) for _ in range(lent + self.at_once))

    def windows(self, rows: Stored, rng: np.random.Generator | None) -> Iterator[Segment]:
        """Yield all rows once: windows of some segments mixed in random order or, if `rng` is None, segments in order.

        Each window is valid until `lent` more have been taken. Raises OSError.
        """
        groups: Iterator[list[int]] = ([number] for number in range(len(rows)))
        if rng is not None:
            groups = _some_at_a_time(rng.permutation(len(rows)).tolist(), rows.sizes, _MOST_MIXED * rows.segment_bytes)
        try:
            for numbers in groups:
                window = self._windows.popleft()
                self._windows.append(window)
                self._coming.append(self.pool.submit(window.fill, rows, numbers))
                if len(self._coming) >= self.at_once:
                    yield self._coming.popleft().result()
            while self._coming:
                yield self._coming.popleft().result()
        finally:
            self.drain()

    def drain(self) -> None:
        """Wait until no window is being read. Errors are ignored, since nobody uses these windows."""
        while self._coming:
            self._coming.popleft().exception()


def _some_at_a_time(order: list[int], sizes: Sequence[int], most_bytes: int) -> Iterator[list[int]]:
    """Yield the numbers of the segments of each window: SEGMENTS in each, fewer where long rows make segments large."""
    some: list[int] = []
    n_bytes = 0
    for number in order:
        if len(some) == SEGMENTS or (some and n_bytes + sizes[number] > most_bytes):
            yield some
            some, n_bytes = [], 0
        some.append(number)
        n_bytes += sizes[number]
    if some:
        yield some


class _Window:
    """Memory for the segments of a window. `at_once` windows are read at the same time."""

    def __init__(self, at_once: int) -> None:
        self._at_once, self._mixture = at_once, Mixture()
        self._buffer: mmap.mmap = make_buffer()

    def fill(self, rows: Stored, numbers: list[int]) -> Segment:
        if len(numbers) == 1:
            return rows.segment(numbers[0], self._at_once, self._memory)
        self._mixture.clear()
        for number in numbers:
            self._mixture.add(rows.segment(number, self._at_once, self._memory))
        return self._mixture.rows

    def _memory(self, size: int) -> mmap.mmap:
        """Return a buffer of at least `size` bytes: the same buffer at each call, unless it was too small."""
        if len(self._buffer) < size:
            self._buffer = make_buffer(size)
        return self._buffer
