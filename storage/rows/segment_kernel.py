"""Packs rows into a segment: the inner loop of `segment.SegmentBuilder`."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array


class Columns(NamedTuple):
    """The columns of a segment as a tuple, for kernels; for their meaning see storage.rows.segment.Segment."""

    row_id: Array
    class_code: Array
    fold: Array
    Qii: Array
    indptr: Array
    indices: Array
    values: Array
    target: Array
    weight: Array


# number_features(indices (n,)): fills `indices` with 0, 1, 2, ..., the features of a dense row.


@njit(cache=True, nogil=True, inline="always")
def number_features(indices: Array) -> None:
    for j in range(indices.shape[0]):
        indices[j] = j


# append_rows(picked (k,), columns of the source, rows, room, per_row, per_value, columns of the segment being built):
# appends the picked rows, in order, to a segment of `rows` rows, until a row would exceed `room` bytes. A row takes
# `per_row` bytes, a value `per_value`. Fills the columns `out` in place; returns the number of rows appended. If `out`
# has indices, dense rows get indices.


@njit(cache=True, nogil=True)
def append_rows(
    picked: Array, source: Columns, rows: int, room: int, per_row: int, per_value: int, out: Columns
) -> int:
    indptr, indices, values = source.indptr, source.indices, source.values
    is_dense, writes_indices = indices.shape[0] == 0, out.indices.shape[0] > 0
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
        if writes_indices:
            to_indices = out.indices[position : position + length]
            if is_dense:
                number_features(to_indices)
            else:
                row_indices = indices[start:end]
                for j in range(length):
                    to_indices[j] = row_indices[j]
        row_values, to_values = values[start:end], out.values[position : position + length]
        for j in range(length):
            to_values[j] = row_values[j]
        position += length
        out.indptr[row + 1] = position
    return picked.shape[0]


# densify(indptr (n + 1,), indices, values, dense (n, d) zeros): dense[i, f] = the value of feature f in row i.


@njit(cache=True, nogil=True)
def densify(indptr: Array, indices: Array, values: Array, dense: Array) -> None:
    for i in range(dense.shape[0]):
        row = dense[i]
        for j in range(indptr[i], indptr[i + 1]):
            row[np.uint32(indices[j])] = values[j]
