"""Computes decision values of rows, and predicts classes from decision values."""

import numpy as np

from streamsvm.storage.machine.thread_work import check_wanted
from streamsvm.storage.models.gaussian_kernel import LANES, squared_distances
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import DENSE_WIDTH, INDEX, Array, Rows, read_only, row_dots
from streamsvm.storage.rows.segment import Segment

_BATCH = 256  # rows whose kernel values are computed at a time


class KernelMachine:
    """Predicts with a kernel machine, on any thread.

    It has support vectors, and beta (n_vectors,) or (n_classes, n_vectors). Memory: 8 bytes for each pair of a vector
    and a feature that occurs in some vector; also 4 bytes for each feature number from 0 to the largest, if there are
    at most DENSE_WIDTH of them.
    """

    def __init__(self, vectors: SupportVectors, beta: Array) -> None:
        self._gamma, self._beta = vectors.gamma, beta
        self._count = len(vectors)
        n_slots = -(-max(1, self._count) // LANES) * LANES
        used, slot = np.unique(vectors.indices, return_inverse=True)
        width = used[-1] + 1 if len(used) else 0
        self._used = used if width > DENSE_WIDTH else None
        self._place = np.full(width if self._used is None else len(used), -1, INDEX)
        self._place[used if self._used is None else slice(None)] = np.arange(len(used))
        self._Z = np.zeros((len(used), n_slots))
        vector, values = np.repeat(np.arange(self._count), np.diff(vectors.indptr)), vectors.values.astype(np.float64)
        self._Z[slot, vector] = values
        self._norms = np.bincount(vector, values**2, n_slots).astype(np.float64)

    def decision_values(self, rows: Rows | Segment) -> Array:
        """Return f of each row, (n_rows,) or (n_rows, n_classes). Rows and vectors must number features alike.

        A feature that no vector has adds to all distances, as in LIBSVM. Raises Unwanted, see `thread_work`.
        """
        return self.values(rows.indptr, rows.indices, rows.values)

    def values(self, indptr: Array, indices: Array, values: Array) -> Array:
        """Return `decision_values` of rows in compressed sparse row form."""
        f = np.empty((len(indptr) - 1, *self._beta.shape[:-1]))
        for begin in range(0, len(f), _BATCH):
            check_wanted()
            bounds = indptr[begin : begin + _BATCH + 1].astype(np.int64)
            stored = slice(bounds[0], bounds[-1])
            kernel = self._kernel_values(bounds - bounds[0], indices[stored], values[stored])
            f[begin : begin + _BATCH] = kernel @ self._beta.T
        return f

    def _kernel_values(self, indptr: Array, indices: Array, values: Array) -> Array:
        """Return the kernel values k(z_s, x_i), (n_rows, n_vectors)."""
        out = np.empty((len(indptr) - 1, len(self._norms)))
        rows = indptr, self._numbered(indices).astype(INDEX, copy=False), values.astype(np.float64)
        squared_distances(*rows, self._place, self._Z, self._norms, out)
        out *= -self._gamma
        np.exp(out, out=out)
        return out[:, : self._count]

    def _numbered(self, indices: Array) -> Array:
        """Return features as indices of `_place`: unchanged, or if numbers are large, their positions in `_used`."""
        if self._used is None:
            return indices
        places = np.searchsorted(self._used, indices)
        is_used = self._used[np.minimum(places, len(self._used) - 1)] == indices
        return np.where(is_used, places, len(self._used))


def squared_norm(vectors: SupportVectors, beta: Array) -> float:
    """Return |f|^2 = sum_sr beta_s beta_r k(z_s, z_r); for beta (n_classes, n_vectors) the sum over all classes."""
    values = KernelMachine(vectors, beta).values(vectors.indptr, vectors.indices, vectors.values)
    return float(np.vdot(beta.T, values))


def decision_values(rows: Rows | Segment, w: Array, intercept: float | Array) -> Array:
    """Return <w, x_i> + intercept: (n_rows,) for w (width,), (n_rows, n_classes) for w (n_classes, width).

    intercept   a float, or (n_classes,). Features >= width add nothing. Raises Unwanted, see `thread_work`.
    """
    # One class at a time: its weights are contiguous, and the rows are few enough to stay in the processor's cache.
    products = np.empty((len(np.atleast_2d(w)), len(rows)))
    csr = read_only(rows.indptr, rows.indices, rows.values)
    for weights, values in zip(np.atleast_2d(w), products, strict=True):
        check_wanted()
        row_dots(*csr, weights, values)
    return (products[0] if w.ndim == 1 else np.ascontiguousarray(products.T)) + intercept


def predicted_classes(decision_values: Array) -> Array:
    """Return the predicted classes as indices (n_rows,) int64 of the model's labels, by LIBLINEAR's rules.

    With two classes, decision values (n_rows,), a value > 0 predicts the first class. With more classes, decision
    values (n_rows, n_classes), the largest value predicts its class; of equal values, the first.
    """
    if decision_values.ndim == 1:
        return (~(decision_values > 0)).astype(np.int64)
    return decision_values.argmax(axis=1)
