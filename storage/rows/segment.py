"""A segment: the unit in the cache. A buffer of fixed size holding packed rows, read in place.

    header | Qii | row_id | indptr | indices | values | y | unused

A row here is ready for training: `y` is -1 or +1 (times a weight), or the value to predict, its features are float32,
its id finds its alpha. Of a row that is left out of training y is 0, or nan if values are to be predicted.
"""

import struct
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment_kernel import Columns, append_rows

HEADER = struct.Struct("<qq")  # rows, nnz: as a dtype it takes ten times as long to read
ROW_ID = np.dtype("<i4")
OFFSET = np.dtype("<i4")
NORM = np.dtype("<f8")
TARGET = np.dtype("<f4")

Count = TypeVar("Count", int, Array)

_PER_ROW = NORM.itemsize + ROW_ID.itemsize + OFFSET.itemsize + TARGET.itemsize
_PER_VALUE = INDEX.itemsize + VALUE.itemsize
_FIXED = HEADER.size + OFFSET.itemsize


def packed_bytes(rows: Count, nnz: Count) -> Count:
    """Bytes that `rows` rows of `nnz` values together take in a segment, its fixed part left out."""
    return rows * _PER_ROW + nnz * _PER_VALUE


def row_bytes(lengths: Array) -> Array:
    """Bytes of each of some rows of so many values, (n,) int64."""
    return _PER_ROW + _PER_VALUE * lengths.astype(np.int64)


def room(segment_bytes: int) -> int:
    """Bytes of rows that fit in a segment of the given size."""
    return segment_bytes - _FIXED


def bytes_of(rows: int, nnz: int) -> int:
    """Bytes in use of a segment's buffer, for `rows` rows of `nnz` values together."""
    return _FIXED + packed_bytes(rows, nnz)


def used_bytes(rows: "Segment") -> int:
    """Of the buffer of a segment; what follows tells nothing."""
    return bytes_of(len(rows), len(rows.indices))


def most_rows(segment_bytes: int) -> int:
    """Rows without values that fit in a segment of the given size."""
    return room(segment_bytes) // _PER_ROW


@dataclass(frozen=True)
class Segment:
    """Views of a segment's columns, or arrays of the same shape.

    row_id (n,) int32   y (n,) float32   Qii (n,) float64   indptr (n + 1,) int32   indices, values (nnz,)
    target (n,) float32, only of rows some of which are left out of training: what y was before; never in a cache
    weight (n,) float64, of rows as they stand on disk, if they have some; never in a cache
    """

    row_id: Array
    y: Array
    Qii: Array
    indptr: Array
    indices: Array
    values: Array
    target: Array | None = None
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.row_id)

    @property
    def columns(self) -> Columns:
        """For a kernel, which may not write to them: of another type if it might, and then it is compiled once more."""
        columns = Columns(
            *(array[:] for array in (self.row_id, self.y, self.Qii, self.indptr, self.indices, self.values))
        )
        for array in columns:
            array.flags.writeable = False
        return columns

    @property
    def row_bytes(self) -> Array:
        """Packed size of each row, (n,) int64."""
        return row_bytes(np.diff(self.indptr))


def view(buffer: memoryview | bytes) -> Segment:
    """The segment in a buffer, without copying."""
    rows, nnz = HEADER.unpack_from(buffer)
    arrays, offset = [], HEADER.size
    for dtype, count in _layout(rows, nnz):
        arrays.append(np.frombuffer(buffer, dtype, count, offset))
        offset += dtype.itemsize * count
    Qii, row_id, indptr, indices, values, y = arrays
    return Segment(row_id, y, Qii, indptr, indices, values)


class SegmentBuilder:
    """Collects rows until a segment of `segment_bytes` is full. One builder is used for many segments."""

    def __init__(self, segment_bytes: int) -> None:
        self._room = room(segment_bytes)
        rows, most_values = most_rows(segment_bytes), self._room // _PER_VALUE
        self._columns = Columns(
            np.empty(rows, ROW_ID), np.empty(rows, TARGET), np.empty(rows, NORM), np.zeros(rows + 1, OFFSET),
            np.empty(most_values, INDEX), np.empty(most_values, VALUE),
        )  # fmt: skip
        self._unused = memoryview(bytes(segment_bytes))
        self._rows = 0

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    @property
    def rows(self) -> Segment:
        """The rows collected so far, valid until the builder is empty again."""
        row_id, y, Qii, indptr, indices, values = self._columns
        rows, nnz = self._rows, int(indptr[self._rows])
        return Segment(row_id[:rows], y[:rows], Qii[:rows], indptr[: rows + 1], indices[:nnz], values[:nnz])

    def clear(self) -> None:
        """Forget all rows."""
        self._rows = 0

    def add(self, source: Segment, picked: Array) -> int:
        """Append as many of the `picked` rows (k,) of `source`, in order, as fit; returns how many."""
        added = append_rows(picked, source.columns, self._rows, self._room, _PER_ROW, _PER_VALUE, self._columns)
        self._rows += added
        return added

    def take(self) -> bytes:
        """The segment built so far, exactly `segment_bytes` long; the builder is empty afterwards."""
        rows = self.rows
        header = HEADER.pack(len(rows), len(rows.indices))
        columns = (rows.Qii, rows.row_id, rows.indptr, rows.indices, rows.values, rows.y)
        rest = self._unused[: self._room - packed_bytes(len(rows), len(rows.indices))]
        self.clear()
        return b"".join([header, *(column.data for column in columns), rest])


def _layout(rows: int, nnz: int) -> tuple[tuple[np.dtype, int], ...]:
    # Widest first, so that every column is aligned.
    return ((NORM, rows), (ROW_ID, rows), (OFFSET, rows + 1), (INDEX, nnz), (VALUE, nnz), (TARGET, rows))
