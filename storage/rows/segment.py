"""A segment: the unit in the cache. A buffer of fixed size holding packed rows, read in place.

    header | Qii | row_id | indptr | indices | values | class_code | fold | target | weight | unused

A row here is ready for training: its features are float32, its id finds its alpha. Its class and fold say which tasks
it takes part in (trainer.problem.tasks). The column `target` is there in regression alone, `weight` where rows have
weights.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment_kernel import Columns, append_rows

HEADER = struct.Struct("<iiq")  # rows, bits of the optional columns, nnz: as a dtype it takes ten times as long to read
ROW_ID = np.dtype("<i4")
OFFSET = np.dtype("<i4")
NORM = np.dtype("<f8")
CODE = np.dtype("<u2")
TARGET = np.dtype("<f4")
ROW_WEIGHT = np.dtype("<f4")
NO_COLUMN = np.empty(0, TARGET)

Count = TypeVar("Count", int, Array)

# A row without values and without the optional columns; each optional column adds as much.
PLAIN_ROW = NORM.itemsize + ROW_ID.itemsize + OFFSET.itemsize + 2 * CODE.itemsize
OPTIONAL_COLUMN = TARGET.itemsize
PER_VALUE = INDEX.itemsize + VALUE.itemsize
_FIXED = HEADER.size + OFFSET.itemsize
_HAS_TARGET, _HAS_WEIGHT = 1, 2


def packed_bytes(rows: Count, nnz: Count, per_row: int = PLAIN_ROW) -> Count:
    """Bytes that `rows` rows of `nnz` values together take in a segment, its fixed part left out."""
    return rows * per_row + nnz * PER_VALUE


def row_bytes(lengths: Array, per_row: int = PLAIN_ROW) -> Array:
    """Bytes of each of some rows of so many values, (n,) int64."""
    return per_row + PER_VALUE * lengths.astype(np.int64)


def room(segment_bytes: int) -> int:
    """Bytes of rows that fit in a segment of the given size."""
    return segment_bytes - _FIXED


def bytes_of(rows: int, nnz: int, per_row: int = PLAIN_ROW) -> int:
    """Bytes in use of a segment's buffer, for `rows` rows of `nnz` values together."""
    return _FIXED + packed_bytes(rows, nnz, per_row)


def used_bytes(buffer: bytes | memoryview, begin: int = 0) -> int:
    """Bytes in use of the segment that begins at this place of a buffer; what follows them tells nothing."""
    rows, optional, nnz = HEADER.unpack_from(buffer, begin)
    return bytes_of(rows, nnz, _per_row(optional))


def most_rows(segment_bytes: int) -> int:
    """An upper bound of the number of rows in a segment of this size: as many as fit if rows have no values."""
    return room(segment_bytes) // PLAIN_ROW


def _per_row(optional: int) -> int:
    return PLAIN_ROW + OPTIONAL_COLUMN * optional.bit_count()


@dataclass(frozen=True)
class Segment:
    """Views of a segment's columns, or arrays of the same shape.

    row_id      (n,) int32
    class_code  (n,) uint16  place of the row's class among the labels of a job, 0 in regression
    fold        (n,) uint16  fold of a cross-validation, 0 if there is none
    Qii         (n,) float64 squared norm
    indptr      (n + 1,) int32   indices, values (nnz,)
    target      (n,) float32 number to predict in regression; else (0,)
    weight      (n,) float32 weight of the row's loss, or (0,): all have 1; float64 in rows that have just been decoded
    """

    row_id: Array
    class_code: Array
    fold: Array
    Qii: Array
    indptr: Array
    indices: Array
    values: Array
    target: Array = field(default_factory=lambda: NO_COLUMN)
    weight: Array = field(default_factory=lambda: NO_COLUMN)

    @classmethod
    def unlabelled(cls, Qii: Array, indptr: Array, indices: Array, values: Array) -> "Segment":
        """Rows to be looked at that have no class, fold or id."""
        n_rows = len(Qii)
        codes = np.zeros(n_rows, CODE)
        return cls(np.zeros(n_rows, ROW_ID), codes, codes, Qii, indptr, indices, values)

    def __len__(self) -> int:
        return len(self.row_id)

    @property
    def columns(self) -> Columns:
        """For a kernel, which may not write to them: of another type if it might, and then it is compiled once more."""
        columns = Columns(
            self.row_id[:], self.class_code[:], self.fold[:], self.Qii[:], self.indptr[:], self.indices[:],
            self.values[:], self.target[:], self.weight.astype(ROW_WEIGHT, copy=False)[:],
        )  # fmt: skip
        for array in columns:
            array.flags.writeable = False
        return columns

    @property
    def per_row(self) -> int:
        """Packed size of a row without values."""
        return _per_row(self.optional)

    @property
    def optional(self) -> int:
        """Which optional columns there are, as a header has it."""
        return _HAS_TARGET * bool(len(self.target)) + _HAS_WEIGHT * bool(len(self.weight))

    @property
    def row_bytes(self) -> Array:
        """Packed size of each row, (n,) int64."""
        return row_bytes(np.diff(self.indptr), self.per_row)


def view(buffer: memoryview | bytes) -> Segment:
    """The segment in a buffer, without copying."""
    rows, optional, nnz = HEADER.unpack_from(buffer)
    arrays, offset = [], HEADER.size
    for dtype, count in _layout(rows, nnz, optional):
        arrays.append(np.frombuffer(buffer, dtype, count, offset))
        offset += dtype.itemsize * count
    Qii, row_id, indptr, indices, values, class_code, fold, target, weight = arrays
    return Segment(row_id, class_code, fold, Qii, indptr, indices, values, target, weight)


class SegmentBuilder:
    """Collects rows until a segment of `segment_bytes` is full. One builder is used for many segments.

    All rows that it is given have the same columns.
    """

    def __init__(self, segment_bytes: int) -> None:
        self._room = room(segment_bytes)
        rows, most_values = most_rows(segment_bytes), self._room // PER_VALUE
        self._columns = Columns(
            np.empty(rows, ROW_ID), np.empty(rows, CODE), np.empty(rows, CODE), np.empty(rows, NORM),
            np.zeros(rows + 1, OFFSET), np.empty(most_values, INDEX), np.empty(most_values, VALUE),
            NO_COLUMN, NO_COLUMN,
        )  # fmt: skip
        self._unused = memoryview(bytes(segment_bytes))
        self._rows = 0

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    @property
    def rows(self) -> Segment:
        """The rows collected so far, valid until the builder is empty again."""
        row_id, class_code, fold, Qii, indptr, indices, values, target, weight = self._columns
        rows, nnz = self._rows, int(indptr[self._rows])
        return Segment(
            row_id[:rows], class_code[:rows], fold[:rows], Qii[:rows], indptr[: rows + 1], indices[:nnz], values[:nnz],
            target[:rows], weight[:rows],
        )  # fmt: skip

    def clear(self) -> None:
        """Forget all rows."""
        self._rows = 0

    def add(self, source: Segment, picked: Array) -> int:
        """Append as many of the `picked` rows (k,) of `source`, in order, as fit; returns how many."""

        def write(rows: int, room: int, out: Columns) -> int:
            return append_rows(picked, source.columns, rows, room, source.per_row, PER_VALUE, out)

        return self.append(source, write)

    def append(self, like: Segment, write: Callable[[int, int, Columns], int]) -> int:
        """Have `write`(rows so far, bytes of room, columns) append rows that have the columns of `like`.

        Returns how many rows it appended.
        """
        self._have_columns_of(like)
        added = write(self._rows, self._room, self._columns)
        self._rows += added
        return added

    def take(self) -> bytes:
        """The segment built so far, exactly `segment_bytes` long; the builder is empty afterwards."""
        rows = self.rows
        header = HEADER.pack(len(rows), rows.optional, len(rows.indices))
        columns = (
            rows.Qii, rows.row_id, rows.indptr, rows.indices, rows.values, rows.class_code, rows.fold, rows.target,
            rows.weight,
        )  # fmt: skip
        rest = self._unused[: self._room - packed_bytes(len(rows), len(rows.indices), rows.per_row)]
        self.clear()
        return b"".join([header, *(column.data for column in columns), rest])

    def _have_columns_of(self, source: Segment) -> None:
        """Make the optional columns that the source has, and no others."""
        for name in ("target", "weight"):
            if bool(len(getattr(source, name))) != bool(len(getattr(self._columns, name))) and len(source):
                count = len(self._columns.row_id) if len(getattr(source, name)) else 0
                self._columns = self._columns._replace(**{name: np.empty(count, TARGET)})


def _layout(rows: int, nnz: int, optional: int) -> tuple[tuple[np.dtype, int], ...]:
    # Every column is aligned: the codes of class and fold take two bytes a row each, four together.
    return (
        (NORM, rows), (ROW_ID, rows), (OFFSET, rows + 1), (INDEX, nnz), (VALUE, nnz), (CODE, rows), (CODE, rows),
        (TARGET, rows if optional & _HAS_TARGET else 0), (ROW_WEIGHT, rows if optional & _HAS_WEIGHT else 0),
    )  # fmt: skip
