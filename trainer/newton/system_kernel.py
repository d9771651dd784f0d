"""Adds rows to the matrix of a system: sparse rows value by value, dense ones by way of BLAS.

picked (k,) are positions of rows; h and factor (k,) are the numbers h_i and the factors of these rows.
"""

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array, feature

# add_squares(..., matrix (d, d)): matrix += h_i x_i x_i', in its lower half only. spread_out(..., dense (k, d)): dense
# holds zeros; its rows become factor_i x_i. quadratic_forms(..., matrix (d, d) symmetric, out): out_i = x_i' matrix x_i
# of the rows picked.


@njit(cache=True, nogil=True)
def add_squares(picked: Array, h: Array, indptr: Array, indices: Array, values: Array, matrix: Array) -> None:
    for place in range(picked.shape[0]):
        start, end = indptr[picked[place]], indptr[picked[place] + 1]
        for j in range(start, end):
            first, by = feature(indices, start, j), h[place] * np.float64(values[j])
            for k in range(start, j + 1):
                second = feature(indices, start, k)
                matrix[max(first, second), min(first, second)] += by * np.float64(values[k])


@njit(cache=True, nogil=True)
def spread_out(picked: Array, factor: Array, indptr: Array, indices: Array, values: Array, dense: Array) -> None:
    for place in range(picked.shape[0]):
        start = indptr[picked[place]]
        for j in range(start, indptr[picked[place] + 1]):
            dense[place, feature(indices, start, j)] = factor[place] * np.float64(values[j])


@njit(cache=True, nogil=True)
def quadratic_forms(picked: Array, indptr: Array, indices: Array, values: Array, matrix: Array, out: Array) -> None:
    for place in range(picked.shape[0]):
        start, end, total = indptr[picked[place]], indptr[picked[place] + 1], 0.0
        for j in range(start, end):
            first, own, inner = feature(indices, start, j), np.float64(values[j]), 0.0
            for k in range(start, j):
                inner += matrix[first, feature(indices, start, k)] * values[k]
            total += own * (2.0 * inner + matrix[first, first] * own)
        out[picked[place]] = total
