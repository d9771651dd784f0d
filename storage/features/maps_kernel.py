"""Short inner loops of feature maps."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD = 16  # number of values by which kernels prefetch ahead

# gather_rows(picked (k,), indptr, indices, values; out_indptr (k + 1,), out_indices, out_values): copies the rows at
# the positions `picked`, in this order.


@njit(cache=True, nogil=True)
def gather_rows(
    picked: Array, indptr: Array, indices: Array, values: Array, out_indptr: Array, out_indices: Array,
    out_values: Array,
) -> None:  # fmt: skip
    k = 0
    out_indptr[0] = 0
    for i in range(picked.shape[0]):
        for j in range(indptr[picked[i]], indptr[picked[i] + 1]):
            out_indices[k], out_values[k] = indices[j], values[j]
            k += 1
        out_indptr[i + 1] = k


# make_unit_rows(indptr (n + 1,), values (nnz,), out (nnz,) float32): divides each row by its norm, if that is not 0.


@njit(cache=True, nogil=True)
def make_unit_rows(indptr: Array, values: Array, out: Array) -> None:
    for row in range(indptr.shape[0] - 1):
        total = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            value = np.float64(values[j])
            total += value * value
        length = math.sqrt(total) if total > 0.0 else 1.0
        for j in range(indptr[row], indptr[row + 1]):
            out[j] = np.float64(values[j]) / length


# weigh(indices, values (nnz,), weights (width,) float64, out (nnz,) float32): out[j] = values[j] weights[indices[j]].


@njit(cache=True, nogil=True)
def weigh(indices: Array, values: Array, weights: Array, out: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(weights, indices[j + _AHEAD])
        out[j] = np.float64(values[j]) * weights[np.uint32(indices[j])]


# project(indptr, indices, values, omega (width, D), b (D,), z (n, D) float32): z_i = b + sum_f x_if omega_f.


@njit(cache=True, nogil=True, fastmath=True)
def project(indptr: Array, indices: Array, values: Array, omega: Array, b: Array, z: Array) -> None:
    dimension = b.shape[0]
    for i in range(z.shape[0]):
        for d in range(dimension):
            z[i, d] = b[d]
        for j in range(indptr[i], indptr[i + 1]):
            f, value = indices[j], values[j]
            for d in range(dimension):
                z[i, d] += value * omega[f, d]


# count_features(indices, values (nnz,), rows int64, sums, squares float64, largest float32 (width,)): adds each value
# to the statistics of its feature, in place. A feature occurs at most once in a row, so each value counts one row.


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
