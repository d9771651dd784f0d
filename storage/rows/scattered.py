"""Yields the rows of many segments in any order, such as a random order over all rows, by copying each row.

A kernel visits the rows of one segment. Successive rows of a random order lie in different segments, so a small batch
of them is copied into one segment first: each row is read from memory once, and the kernel then finds it in the
processor's cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.scattered_kernel import INDICES, POSITION_BITS, Memory, append_scattered
from streamsvm.storage.rows.segment import (
    CODE,
    NORM,
    OFFSET,
    ROW_ID,
    Segment,
    SegmentBuilder,
    bytes_of,
)
from streamsvm.storage.rows.segment_kernel import Columns

_BATCH_BYTES = 1 << 18  # stays in the processor's cache until the rows are visited
_ALIGNMENT = 8
_TYPES_OF_MEMORY = ("<i4", "<f4", "<f8", "<u2")  # in the order of Memory
_TYPES = ("<i4", "<u2", "<u2", "<f8", "<i4", "<i4", "<f4", "<f4", "<f4")  # in the order of Columns
_SIZES = np.array([np.dtype(dtype).itemsize for dtype in _TYPES])
_NO_CODES = np.empty(0, CODE)
NO_ROWS = Segment(
    np.empty(0, ROW_ID), _NO_CODES, _NO_CODES, np.empty(0, NORM), np.zeros(1, OFFSET), np.empty(0, INDEX),
    np.empty(0, VALUE),
)  # fmt: skip


def places_of(segment: int, positions: Array) -> Array:
    """Return the places (k,) int64 of the rows at `positions` (k,) of segment number `segment`: both in one number."""
    return (segment << POSITION_BITS) + positions.astype(np.int64)


@dataclass(frozen=True)
class Located:
    """A segment and the addresses of its columns, which take longer to look up than copying some rows takes.

    begins   address of each column, in the order of Columns
    first    lowest address of a column; last: highest end address of a column
    longest  number of values of the longest row
    """

    rows: Segment
    begins: tuple[int, ...]
    first: int
    last: int
    longest: int


def located(rows: Segment) -> Located:
    """Look up the addresses of a segment's columns."""
    columns = [getattr(rows, name) for name in Columns._fields]
    begins = tuple(column.__array_interface__["data"][0] for column in columns)
    parts = [(begin, begin + column.nbytes) for begin, column in zip(begins, columns, strict=True) if column.nbytes]
    longest = int(np.diff(rows.indptr).max()) if len(rows) else 0
    return Located(rows, begins, min(begin for begin, _ in parts), max(end for _, end in parts), longest)


class ScatteredRows:
    """The rows of several segments with the same columns; usable while these segments are valid."""

    def __init__(self, segments: Sequence[Located]) -> None:
        self._segments = segments
        first = min((each.first for each in segments), default=0)
        first -= first % _ALIGNMENT
        last = max((each.last for each in segments), default=0)
        self._memory = Memory(*(_Region(first, last - first, dtype).array for dtype in _TYPES_OF_MEMORY))
        offsets = np.array([each.begins for each in segments], np.int64).reshape(-1, len(_SIZES))
        self._offsets = (offsets - first) // _SIZES
        self._offsets[[each.rows.is_dense for each in segments], INDICES] = -1
        longest = max((each.longest for each in segments), default=0)
        # Dense rows can be written among sparse rows, but sparse rows cannot be written among dense rows.
        every = (each.rows for each in segments)
        self._like = max(every, key=lambda rows: (len(rows.indices), len(rows)), default=NO_ROWS)
        self._builder = SegmentBuilder(max(_BATCH_BYTES, bytes_of(1, longest, self._like.per_row)))

    @property
    def places(self) -> Array:
        """The places (n,) int64 of all rows, segment after segment, see `places_of`."""
        lengths = [len(each.rows) for each in self._segments]
        begins = np.cumsum(lengths) - lengths
        return np.arange(sum(lengths)) + np.repeat((np.arange(len(lengths)) << POSITION_BITS) - begins, lengths)

    def batches(self, places: Array) -> Iterator[Segment]:
        """Yield copies of the rows at `places` (k,) int64, in this order, in batches, each valid until the next."""
        begin = 0
        while begin < len(places):
            self._builder.clear()
            begin += self._builder.append(self._like, partial(self._copy, places[begin:]))
            yield self._builder.rows

    def _copy(self, places: Array, rows: int, room: int, per_value: int, out: Columns) -> int:
        like = self._like
        return append_scattered(
            places, self._offsets, self._memory, len(like.target) > 0, len(like.weight) > 0, rows, room, like.per_row,
            per_value, out,
        )  # fmt: skip


class _Region:
    """A region of memory, from address `first` on, as a read-only array of numbers of type `dtype`."""

    def __init__(self, first: int, n_bytes: int, dtype: str) -> None:
        shape = (-(-n_bytes // np.dtype(dtype).itemsize),)
        self.__array_interface__ = {"version": 3, "data": (first, True), "shape": shape, "typestr": dtype}

    @property
    def array(self) -> Array:
        return np.asarray(self)
