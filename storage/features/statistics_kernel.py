"""Counting what rows hold of each feature."""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.prefetch_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD = 16

# count_features(indices, values (nnz,), rows int64, sums, squares float64, largest float32 (width,)): each value is
# counted for its feature, in place. A feature is once in a row at most, so that values are rows.


@njit(cache=True, nogil=True)
def count_features(indices: Array, values: Array, rows: Array, sums: Array, squares: Array, largest: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            ahead = indices[j + _AHEAD]
            prefetch(rows, ahead)
            prefetch(sums, ahead)
            prefetch(squares, ahead)
            prefetch(largest, ahead)
        f, value = indices[j], np.float64(values[j])
        rows[f] += 1
        sums[f] += value
        squares[f] += value * value
        largest[f] = max(largest[f], abs(values[j]))
