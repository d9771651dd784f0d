"""Yields the rows of many segments in any order, such as a random order over all rows, by copying each row.

A kernel visits the rows of one segment. Successive rows of a random order lie in different segments, so a small batch
of them is copied into one segment first: each row is read from memory once, and the kernel then finds it in the
processor's cache.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment import (
    CODE,
    NORM,
    OFFSET,
    ROW_ID,
    Segment,
    SegmentBuilder,
    bytes_of,
)
from streamsvm.storage.rows.segment_kernel import INDICES, POSITION_BITS, Columns, Memory, append_scattered

_BATCH_BYTES = 1 << 18  # stays in the processor's cache until the rows are visited
_ALIGNMENT = 8
_TYPES_OF_MEMORY = ("<i4", "<f4", "<f8", "<u2")  # in the order of Memory
_TYPES = ("<i4", "<u2", "<u2", "<f8", "<i4", "<i4", "<f4", "<f4", "<f4")  # in the order of Columns
_SIZES = np.array([np.dtype(dtype).itemsize for dtype in _TYPES])
_NOWHERE = np.iinfo(np.int64).max, 0
_NO_CODES = np.empty(0, CODE)
NO_ROWS = Segment(
    np.empty(0, ROW_ID), _NO_CODES, _NO_CODES, np.empty(0, NORM), np.zeros(1, OFFSET), np.empty(0, INDEX),
    np.empty(0, VALUE),
)  # fmt: skip


def places_of(segment: int, positions: Array) -> Array:
    """Return the places (k,) int64 of the rows at `positions` (k,) of segment number `segment`: both in one number."""
    return (segment << POSITION_BITS) + positions.astype(np.int64)


class ScatteredRows:
    """The rows of several segments with the same columns, numbered 0, 1, ...; usable while these segments are valid."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        # Of each segment the address of each column, in the order of Columns, the lowest, and the highest end address.
        self._begins, self._bounds = np.zeros((0, len(_SIZES)), np.int64), np.zeros((0, 2), np.int64)
        self._is_dense = np.zeros(0, bool)
        self._like, self._longest = NO_ROWS, -1
        self.put(dict(enumerate(segments)))

    def put(self, segments: Mapping[int, Segment | None]) -> None:
        """Set the segments of these numbers; None: there is no such segment any more."""
        more = max(segments, default=-1) + 1 - len(self._begins)
        if more > 0:
            self._begins, self._bounds = (np.pad(each, ((0, more), (0, 0))) for each in (self._begins, self._bounds))
            self._bounds[-more:] = _NOWHERE
            self._is_dense = np.pad(self._is_dense, (0, more))
        for number, rows in segments.items():
            if rows is None:
                self._bounds[number] = _NOWHERE
            else:
                self._locate(number, rows)
        first, last = int(self._bounds[:, 0].min(initial=_NOWHERE[0])), int(self._bounds[:, 1].max(initial=0))
        first = min(first, last) - min(first, last) % _ALIGNMENT
        self._memory = Memory(*(_Region(first, last - first, dtype).array for dtype in _TYPES_OF_MEMORY))
        self._offsets = (self._begins - first) // _SIZES
        self._offsets[self._is_dense, INDICES] = -1

    def _locate(self, number: int, rows: Segment) -> None:
        columns = [getattr(rows, name) for name in Columns._fields]
        begins = [column.__array_interface__["data"][0] for column in columns]
        parts = [(begin, begin + column.nbytes) for begin, column in zip(begins, columns, strict=True) if column.nbytes]
        self._begins[number] = begins
        self._bounds[number] = min(begin for begin, _ in parts), max(end for _, end in parts)
        self._is_dense[number] = rows.is_dense
        # Dense rows can be written among sparse rows, but sparse rows cannot be written among dense rows.
        if (len(rows.indices) > 0, len(rows)) > (len(self._like.indices) > 0, 0):
            self._like = rows
        longest = int(np.diff(rows.indptr).max(initial=0))
        if longest > self._longest:
            self._longest = longest
            self._builder = SegmentBuilder(max(_BATCH_BYTES, bytes_of(1, longest, self._like.per_row)))

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
