"""Packs rows into a segment: the inner loop of `segment.SegmentBuilder`."""

from typing import NamedTuple

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array


class Columns(NamedTuple):
    """A segment's columns, as kernels take them; see storage.rows.segment.Segment."""

    row_id: Array
    class_code: Array
    fold: Array
    Qii: Array
    indptr: Array
    indices: Array
    values: Array
    target: Array
    weight: Array


# append_rows(picked (k,), columns of the source, rows, room, per_row, per_value, columns of the segment being built):
# appends the picked rows, in order, to a segment of `rows` rows, until one would exceed `room` bytes. A row takes
# `per_row` bytes, a value `per_value`. Fills the columns `out` in place; returns the number of rows appended.


@njit(cache=True, nogil=True)
def append_rows(
    picked: Array, source: Columns, rows: int, room: int, per_row: int, per_value: int, out: Columns
) -> int:
    indptr, indices, values = source.indptr, source.indices, source.values
    has_target, has_weight = source.target.shape[0] > 0, source.weight.shape[0] > 0
    position = int(out.indptr[rows])
    used = rows * per_row + position * per_value
    for k in range(picked.shape[0]):
        i = picked[k]
        start, end = int(indptr[i]), int(indptr[i + 1])
        length = end - start
        used += per_row + length * per_value
        if used > room:
            return k
        row = rows + k
        out.row_id[row], out.Qii[row] = source.row_id[i], source.Qii[i]
        out.class_code[row], out.fold[row] = source.class_code[i], source.fold[i]
        if has_target:
            out.target[row] = source.target[i]
        if has_weight:
            out.weight[row] = source.weight[i]
        # A separate loop for each column, over views that start at 0, compiles to vector code.
        row_indices, to_indices = indices[start:end], out.indices[position : position + length]
        for j in range(length):
            to_indices[j] = row_indices[j]
        row_values, to_values = values[start:end], out.values[position : position + length]
        for j in range(length):
            to_values[j] = row_values[j]
        position += length
        out.indptr[row + 1] = position
    return picked.shape[0]
