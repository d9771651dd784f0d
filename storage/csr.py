"""Rows of sparse data, and the few kernels that reader and trainer share.

A row i of `Rows` has the features `indices[indptr[i]:indptr[i+1]]` with the values at the same places of `values`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

INDPTR = np.dtype("<i8")
INDEX = np.dtype("<i4")
VALUE = np.dtype("<f4")
LABEL = np.dtype("<f8")


@dataclass(frozen=True)
class Rows:
    """A run of labelled rows in compressed sparse row form.

    label   (n_rows,)     float64, the label as it stood in the input
    indptr  (n_rows + 1,) int64, starts at 0
    indices (nnz,)        int32, strictly increasing inside a row, as numbered in the input (base 0 or 1)
    values  (nnz,)        float32, finite
    """

    label: Array
    indptr: Array
    indices: Array
    values: Array

    def __len__(self) -> int:
        return len(self.label)

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self.indptr[-1])


# squared_norms(indptr (n + 1,), values (nnz,), out (n,) float64): out[i] = |x_i|^2, "Qii" in the papers.


@njit(cache=True, nogil=True)
def squared_norms(indptr: Array, values: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[j])  # float() would leave it a float32 when compiled
            total += value * value
        out[i] = total


# row_dots(indptr, indices, values, w (d,) float64, out (n,) float64): out[i] = <w, x_i>.
# Features at or beyond d are ignored, as LIBLINEAR's predict does.


@njit(cache=True, nogil=True)
def row_dots(indptr: Array, indices: Array, values: Array, w: Array, out: Array) -> None:
    dimension = w.shape[0]
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            if indices[j] < dimension:
                total += w[indices[j]] * values[j]
        out[i] = total


# add_rows(coefficient (n,), indptr, indices, values, w (d,)): w += sum_i coefficient[i] x_i, in place.


@njit(cache=True, nogil=True)
def add_rows(coefficient: Array, indptr: Array, indices: Array, values: Array, w: Array) -> None:
    for i in range(coefficient.shape[0]):
        if coefficient[i] != 0.0:
            for j in range(indptr[i], indptr[i + 1]):
                w[indices[j]] += coefficient[i] * values[j]
