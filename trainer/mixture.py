"""Rows of several segments copied side by side, to be permuted and visited as one.

Rows that are always visited one right after the other are fitted to each other first, and which rows share a segment
does not change. Where all rows have something in common, frequent words or a bias, each segment then pulls w its own
way: training needs up to three times as many sweeps as with all rows permuted. Each segment's rows among those of three
others, new ones in each sweep, are as good as that.
"""

import numpy as np

from storage.csr import Array
from storage.plan import LARGEST_SEGMENT
from storage.segment import Segment, SegmentBuilder, packed_bytes

SEGMENTS = 4
_BYTES = 1 << 17  # for fewer the kernel takes no longer than what is around it


class Mixture:
    """`clear` it, `add` segments until it is rich, and take its `rows`."""

    def __init__(self, segment_bytes: int = LARGEST_SEGMENT) -> None:
        self._builder = SegmentBuilder(SEGMENTS * segment_bytes)
        self._count = 0

    @property
    def is_rich(self) -> bool:
        """Whether it has enough segments; up to then there is room for another."""
        rows = self.rows
        return self._count >= SEGMENTS and packed_bytes(len(rows), len(rows.indices)) >= _BYTES

    @property
    def rows(self) -> Segment:
        """Those added, in order, valid until `clear`."""
        return self._builder.rows

    def clear(self) -> None:
        self._builder.clear()
        self._count = 0

    def add(self, rows: Segment, picked: Array | None = None) -> None:
        """The rows at the positions `picked` (k,) int32 of a segment, or all."""
        picked = np.arange(len(rows), dtype=np.int32) if picked is None else picked
        added = self._builder.add(rows, picked)
        assert added == len(picked)
        self._count += 1
