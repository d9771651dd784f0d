"""Copies rows of several segments side by side, so that they are permuted and visited together.

Which rows share a segment does not change. If the rows of a segment were visited one right after the other, w would
meanwhile be fitted to them alone. Where all rows have something in common, frequent words or a bias, each segment then
pulls w its own way, and training needs up to three times as many sweeps as with all rows permuted. Mixing a segment
with three others, new ones in each sweep, is as good as permuting all rows.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from streamsvm.storage.rows.cache_plan import PAGE
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, packed_bytes

IsActive = Callable[[Array], Array]  # ids of rows (k,) -> which of the rows are to be visited, (k,) bool

SEGMENTS = 4
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
