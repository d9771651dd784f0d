"""Kernel machines after training, f(x) = sum_s beta_s k(z_s, x), to the digits that LIBSVM's `svm-predict` has.

Training makes its kernel values of float32 products, and takes exp(-700) for all below. Here products are float64, and
a value that underflows is 0: a row far from all vectors has f(x) = 0, and not the sign of sum_s beta_s.
"""

import numpy as np

from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.models.distance_kernel import squared_distances
from streamsvm.storage.models.gaussian_kernel import LANES
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import DENSE_WIDTH, INDEX, Array, Rows
from streamsvm.storage.rows.segment import Segment

_PIECE = 256  # rows whose kernel values are made at a time


class KernelMachine:
    """Vectors and beta, (n_vectors,) or (n_classes, n_vectors), ready to be applied by any thread.

    Takes eight bytes a vector for each feature that one of them has, and, where these are not far apart, four for each
    below the largest of them.
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
        """(n_rows,), or (n_rows, n_classes), for rows whose features are numbered as those of the vectors.

        A feature that no vector has adds to the distance from all of them, as in LIBSVM.
        """
        return self.values(rows.indptr, rows.indices, rows.values)

    def values(self, indptr: Array, indices: Array, values: Array) -> Array:
        """The same of rows in compressed sparse form."""
        found = np.empty((len(indptr) - 1, *self._beta.shape[:-1]))
        for begin in range(0, len(found), _PIECE):
            check_wanted()
            bounds = indptr[begin : begin + _PIECE + 1].astype(np.int64)
            own = slice(bounds[0], bounds[-1])
            found[begin : begin + _PIECE] = self._piece(bounds - bounds[0], indices[own], values[own]) @ self._beta.T
        return found

    def _piece(self, indptr: Array, indices: Array, values: Array) -> Array:
        """k(z_s, x_i), (n_rows, n_vectors)."""
        found = np.empty((len(indptr) - 1, len(self._norms)))
        rows = indptr, self._numbered(indices).astype(INDEX, copy=False), values.astype(np.float64)
        squared_distances(*rows, self._place, self._Z, self._norms, found)
        found *= -self._gamma
        np.exp(found, out=found)
        return found[:, : self._count]

    def _numbered(self, indices: Array) -> Array:
        """Number features as `_place` does: where far apart, each is its place among those that a vector has."""
        if self._used is None:
            return indices
        places = np.searchsorted(self._used, indices)
        known = self._used[np.minimum(places, len(self._used) - 1)] == indices
        return np.where(known, places, len(self._used))


def squared_norm(vectors: SupportVectors, beta: Array) -> float:
    """|f|^2 = sum_sr beta_s beta_r k(z_s, z_r), of several classes (n_classes, n_vectors) the sum of theirs."""
    values = KernelMachine(vectors, beta).values(vectors.indptr, vectors.indices, vectors.values)
    return float(np.vdot(beta.T, values))
