"""Making rows of length 1, and their values weighed."""

import math

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.prefetch_kernel import prefetch
from streamsvm.storage.rows.csr import Array

_AHEAD = 16

# make_unit_rows(indptr (n + 1,), values (nnz,), out (nnz,) float32): each row divided by its norm, if it has one.
#
# weigh(indices, values (nnz,), weights (width,) float64, out (nnz,) float32): out[j] = values[j] weights[indices[j]].


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


@njit(cache=True, nogil=True)
def weigh(indices: Array, values: Array, weights: Array, out: Array) -> None:
    for j in range(indices.shape[0]):
        if j + _AHEAD < indices.shape[0]:
            prefetch(weights, indices[j + _AHEAD])
        out[j] = np.float64(values[j]) * weights[np.uint32(indices[j])]
