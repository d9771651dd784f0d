"""A segment: the unit in the cache. A buffer of fixed size that holds packed rows, which are read without copying.

    header | Qii | row_id | indptr | indices | values | class_code | fold | target | weight | unused

A row in a segment is ready for training: its values are float32, and its id is its index in alpha. Its class and fold
decide in which tasks it takes part (trainer.problem.tasks). The column `target` exists only in regression, `weight` if
rows have weights. Dense rows have no `indices`: a row's values are those of the features 0, 1, 2, ...
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.csr import INDEX, VALUE, Array, read_only
from streamsvm.storage.rows.segment_kernel import Columns, append_rows, densify

HEADER = struct.Struct("<iiq")  # rows, bits of the optional columns, nnz; a numpy dtype takes ten times as long to read
ROW_ID = np.dtype("<i4")
OFFSET = np.dtype("<i4")
NORM = np.dtype("<f8")
CODE = np.dtype("<u2")
TARGET = np.dtype("<f4")
ROW_WEIGHT = np.dtype("<f4")
NO_COLUMN = np.empty(0, TARGET)

Count = TypeVar("Count", int, Array)

# Packed bytes of a row without values and optional columns; OPTIONAL_COLUMN is added for each optional column.
PLAIN_ROW = NORM.itemsize + ROW_ID.itemsize + OFFSET.itemsize + 2 * CODE.itemsize
OPTIONAL_COLUMN = TARGET.itemsize
PER_VALUE = INDEX.itemsize + VALUE.itemsize
_FIXED = HEADER.size + OFFSET.itemsize
_HAS_TARGET, _HAS_WEIGHT, _IS_DENSE = 1, 2, 4
NO_INDICES = np.empty(0, INDEX)


def packed_bytes(rows: Count, nnz: Count, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> Count:
    """Return the bytes that `rows` rows with `nnz` values in all take in a segment, without its fixed part."""
    return rows * per_row + nnz * per_value


def row_bytes(lengths: Array, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> Array:
    """Return the packed bytes of each row, (n,) int64; lengths (n,): numbers of values."""
    return per_row + per_value * lengths.astype(np.int64)


def room(segment_bytes: int) -> int:
    """Return the bytes of packed rows that fit into a segment of `segment_bytes`."""
    return segment_bytes - _FIXED


def bytes_of(rows: int, nnz: int, per_row: int = PLAIN_ROW, per_value: int = PER_VALUE) -> int:
    """Return the size in bytes of a segment of `rows` rows that have `nnz` values together, its header included."""
    return _FIXED + packed_bytes(rows, nnz, per_row, per_value)


def used_bytes(buffer: bytes | memoryview, begin: int = 0) -> int:
    """Return the bytes in use of the segment at offset `begin` of a buffer; the bytes after them have no meaning."""
    rows, optional, nnz = HEADER.unpack_from(buffer, begin)
    return bytes_of(rows, nnz, _per_row(optional), _per_value(optional))


def most_rows(segment_bytes: int) -> int:
    """Return the most rows that a segment of this size can hold: as many as fit if rows have no values."""
    return room(segment_bytes) // PLAIN_ROW


def _per_row(optional: int) -> int:
    return PLAIN_ROW + OPTIONAL_COLUMN * (optional & (_HAS_TARGET | _HAS_WEIGHT)).bit_count()


def _per_value(optional: int) -> int:
    return VALUE.itemsize if optional & _IS_DENSE else PER_VALUE


@dataclass(frozen=True)
class Segment:
    """The columns of n rows that are ready for training: arrays that lie in a segment's buffer, or separate arrays.

    row_id      (n,) int32   index of the row in alpha
    class_code  (n,) uint16  index of the row's class in the job's labels, 0 in regression
    fold        (n,) uint16  cross-validation fold of the row, 0 without cross-validation
    Qii         (n,) float64 squared norm |x_i|^2
    indptr      (n + 1,) int32; indices (nnz,) int32, or (0,) for dense rows; values (nnz,) float32
    target      (n,) float32 number to predict in regression; else (0,)
    weight      (n,) float32 weight of the row's loss; (0,): each row has 1. float64 in rows that were just decoded
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
        """Make a segment of rows without class, fold and id, for example of rows to predict."""
        n_rows = len(Qii)
        codes = np.zeros(n_rows, CODE)
        return cls(np.zeros(n_rows, ROW_ID), codes, codes, Qii, indptr, indices, values)

    def __len__(self) -> int:
        return len(self.row_id)

    @property
    def columns(self) -> Columns:
        """All columns, read-only, for a kernel."""
        weight = self.weight.astype(ROW_WEIGHT, copy=False)
        return Columns(
            *read_only(self.row_id, self.class_code, self.fold, self.Qii), *self.csr, *read_only(self.target, weight)
        )

    @property
    def csr(self) -> tuple[Array, ...]:
        """indptr, indices and values, read-only, for a kernel."""
        return read_only(self.indptr, self.indices, self.values)

    @property
    def is_dense(self) -> bool:
        """Whether rows have no indices, since their values are those of the features 0, 1, 2, ..."""
        return not len(self.indices) and len(self.values) > 0

    @property
    def width(self) -> int:
        """The largest feature number of the rows, plus 1; 0 without features."""
        return int(np.diff(self.indptr).max() if self.is_dense else self.indices.max(initial=-1) + 1)

    @property
    def per_row(self) -> int:
        """Packed bytes of a row without its values."""
        return _per_row(self.optional)

    @property
    def per_value(self) -> int:
        """Packed bytes of a value, with its index if rows have indices."""
        return _per_value(self.optional)

    @property
    def optional(self) -> int:
        """The bits of a segment's header that say which optional columns exist, and whether rows are dense."""
        has_columns = _HAS_TARGET * bool(len(self.target)) + _HAS_WEIGHT * bool(len(self.weight))
        return has_columns + _IS_DENSE * self.is_dense

    @property
    def row_bytes(self) -> Array:
        """Packed bytes of each row, (n,) int64."""
        return row_bytes(np.diff(self.indptr), self.per_row, self.per_value)

    @property
    def packed_bytes(self) -> int:
        """Packed bytes of all rows."""
        return packed_bytes(len(self), len(self.values), self.per_row, self.per_value)

    @property
    def with_indices(self) -> "Segment":
        """These rows with indices; dense rows get the indices 0, 1, 2, ... of their values."""
        if not self.is_dense:
            return self
        begins = np.repeat(self.indptr[:-1], np.diff(self.indptr))
        return replace(self, indices=np.arange(len(self.values), dtype=INDEX) - begins)

    @property
    def in_shortest_form(self) -> "Segment":
        """These rows as dense rows, with all zeros among the values, if that takes no more bytes; else these rows."""
        shape = len(self), self.width
        if not 0 < VALUE.itemsize * shape[0] * shape[1] <= PER_VALUE * len(self.indices):
            return self
        dense = np.zeros(shape, VALUE)
        densify(*self.csr, dense)
        indptr = np.arange(len(self) + 1, dtype=OFFSET) * OFFSET.type(shape[1])
        return replace(self, indptr=indptr, indices=NO_INDICES, values=dense.reshape(-1))


def view(buffer: memoryview | bytes) -> Segment:
    """Return the segment in a buffer; its arrays lie in the buffer."""
    rows, optional, nnz = HEADER.unpack_from(buffer)
    # Every column is aligned: the codes of class and fold take two bytes a row each, four together.
    layout = (
        (NORM, rows), (ROW_ID, rows), (OFFSET, rows + 1), (INDEX, 0 if optional & _IS_DENSE else nnz), (VALUE, nnz),
        (CODE, rows), (CODE, rows), (TARGET, rows if optional & _HAS_TARGET else 0),
        (ROW_WEIGHT, rows if optional & _HAS_WEIGHT else 0),
    )  # fmt: skip
    arrays, offset = [], HEADER.size
    for dtype, count in layout:
        arrays.append(np.frombuffer(buffer, dtype, count, offset))
        offset += dtype.itemsize * count
    Qii, row_id, indptr, indices, values, class_code, fold, target, weight = arrays
    return Segment(row_id, class_code, fold, Qii, indptr, indices, values, target, weight)


class SegmentBuilder:
    """Packs rows into a segment of `segment_bytes`, and then into the next one. All rows must have the same columns.

    The first row of a segment decides whether the segment is dense. Dense rows can follow sparse rows in a segment, but
    sparse rows cannot follow dense rows.
    """

    def __init__(self, segment_bytes: int) -> None:
        self._room = room(segment_bytes)
        rows = most_rows(segment_bytes)
        self._indices = np.empty(self._room // PER_VALUE, INDEX)
        self._columns = Columns(
            np.empty(rows, ROW_ID), np.empty(rows, CODE), np.empty(rows, CODE), np.empty(rows, NORM),
            np.zeros(rows + 1, OFFSET), self._indices, np.empty(self._room // VALUE.itemsize, VALUE),
            NO_COLUMN, NO_COLUMN,
        )  # fmt: skip
        self._rows = 0

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    @property
    def rows(self) -> Segment:
        """The rows added since the builder was last empty; valid until `clear` or `take`."""
        row_id, class_code, fold, Qii, indptr, indices, values, target, weight = self._columns
        rows, nnz = self._rows, int(indptr[self._rows])
        return Segment(
            row_id[:rows], class_code[:rows], fold[:rows], Qii[:rows], indptr[: rows + 1], indices[:nnz], values[:nnz],
            target[:rows], weight[:rows],
        )  # fmt: skip

    def clear(self) -> None:
        """Drop all rows; the builder is then empty."""
        self._rows = 0

    def add(self, source: Segment, picked: Array) -> int:
        """Append the rows of `source` at positions `picked` (k,), in order, while they fit; return the number added."""

        picked = picked.astype(np.int32, copy=False)  # else the kernel is compiled once more

        def write(rows: int, room: int, per_value: int, out: Columns) -> int:
            return append_rows(picked, source.columns, rows, room, source.per_row, per_value, out)

        return self.append(source, write)

    def append(self, like: Segment, write: Callable[[int, int, int, Columns], int]) -> int:
        """Have the function `write` append rows with the columns of `like`; return the number of rows that it appended.

        `write` gets the number of rows so far, the bytes of room in all, the bytes per value, and the columns to fill.
        """
        for name in ("target", "weight"):  # the optional columns of `like`, and no others
            if bool(len(getattr(like, name))) != bool(len(getattr(self._columns, name))) and len(like):
                count = len(self._columns.row_id) if len(getattr(like, name)) else 0
                self._columns = self._columns._replace(**{name: np.empty(count, TARGET)})
        if self.is_empty:
            self._columns = self._columns._replace(indices=NO_INDICES if like.is_dense else self._indices)
        is_dense = not len(self._columns.indices)
        if is_dense and len(like.indices):
            return 0
        added = write(self._rows, self._room, VALUE.itemsize if is_dense else PER_VALUE, self._columns)
        self._rows += added
        return added

    def write_indices(self) -> None:
        """Add indices to the rows so far if they are dense. The builder must have room for the indices."""
        rows = self.rows
        if rows.is_dense:
            self._indices[: len(rows.values)] = rows.with_indices.indices
            self._columns = self._columns._replace(indices=self._indices)

    def take(self) -> bytes:
        """Return the segment of the rows so far, exactly `segment_bytes` long; the builder is empty afterwards."""
        rows = self.rows
        header = HEADER.pack(len(rows), rows.optional, len(rows.values))
        columns = (
            rows.Qii, rows.row_id, rows.indptr, rows.indices, rows.values, rows.class_code, rows.fold, rows.target,
            rows.weight,
        )  # fmt: skip
        rest = bytes(self._room - rows.packed_bytes)
        self.clear()
        return b"".join([header, *(column.data for column in columns), rest])
