"""Decision values of a model, linear or of a kernel, without the intercept: for rows, matrices and tensors."""

from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Features, FeaturesError
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.models.decision import decision_values
from streamsvm.storage.models.kernel_machine import KernelMachine
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array, Rows
from streamsvm.storage.rows.segment import NORM, ROW_ID, TARGET, Segment

_ROWS_A_PIECE = 1 << 12  # of a matrix, made sparse at a time


def applied(model: Model) -> "Linear | Machine | Mapped":
    """Made ready for any thread; holds no state between calls."""
    if model.maps is not None:
        return Mapped(model.maps, model.w, model.index_base)
    return Linear(model) if model.vectors is None else Machine(model.vectors, model.w, model.index_base)


class Linear:
    """<w, x>; w (index_base + n_features,), or one such row a class: the weight of feature f at place f."""

    def __init__(self, model: Model) -> None:
        self._w = _by_number(model)
        self.w = self._w[..., model.index_base :]

    def of_rows(self, rows: Rows) -> Array:
        """(n_rows,), or (n_rows, n_classes); features numbered as in the input."""
        return decision_values(rows, self._w, 0.0)

    def of_columns(self, X: Any) -> Array:
        """For X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        if self.w.ndim == 1 or not sparse.issparse(X):
            return np.asarray(X @ self.w.T)
        # A class after the other: scipy would copy the weights of all.
        found = np.empty((X.shape[0], len(self.w)))
        for number, weights in enumerate(self.w):
            check_wanted()
            found[:, number] = X @ weights
        return found

    def of_sparse(self, indptr: Array, columns: Array, values: Array) -> Array:
        """For rows in compressed sparse form, columns (nnz,) int64; those from n_features on are unknown."""
        # As LIBLINEAR does, unknown features are passed over.
        n_features = self.w.shape[-1]
        known = columns < n_features
        kept = np.where(known, values, 0.0), np.where(known, columns, 0), indptr
        return self.of_columns(sparse.csr_matrix(kept, (len(indptr) - 1, n_features)))


class Machine:
    """sum_s beta_s k(z_s, x); features of the vectors are numbered from `index_base`."""

    def __init__(self, vectors: SupportVectors, beta: Array, index_base: int) -> None:
        self.w = beta
        self._machine, self._index_base = KernelMachine(vectors, beta), index_base
        self._n_features = vectors.width - index_base

    def of_rows(self, rows: Rows) -> Array:
        """(n_rows,), or (n_rows, n_classes); features numbered as in the input."""
        return self._machine.decision_values(rows)

    def of_columns(self, X: Any) -> Array:
        """For X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        found = np.empty((X.shape[0], *self.w.shape[:-1]))
        for begin in range(0, len(found), _ROWS_A_PIECE):
            some = sparse.csr_matrix(X[begin : begin + _ROWS_A_PIECE])
            some.sum_duplicates()
            found[begin : begin + _ROWS_A_PIECE] = self._machine.values(
                some.indptr, some.indices + self._index_base, some.data
            )
        return found

    def of_sparse(self, indptr: Array, columns: Array, values: Array) -> Array:
        """For rows in compressed sparse form, columns (nnz,) int64; those from n_features on are unknown."""
        # Numbered anew: they may be beyond what a matrix has room for, and only tell one from the other.
        unknown = columns >= self._n_features
        others, place = np.unique(columns[unknown], return_inverse=True)
        own = columns.copy()
        own[unknown] = self._n_features + place
        shape = len(indptr) - 1, self._n_features + len(others)
        return self.of_columns(sparse.csr_matrix((values, own, indptr), shape))


class Mapped:
    """<w, maps(x)>; w (width,), or one such row a class, has a weight for each feature that the maps make."""

    def __init__(self, maps: FeatureMaps, w: Array, index_base: int) -> None:
        self.w = w
        self._maps, self._index_base = maps, index_base

    def of_rows(self, rows: Rows) -> Array:
        """(n_rows,), or (n_rows, n_classes); features numbered as in the input."""
        return self._values(rows.indptr, rows.indices, rows.values)

    def of_columns(self, X: Any) -> Array:
        """For X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        X = sparse.csr_matrix(X)
        X.sum_duplicates()
        return self.of_sparse(X.indptr, X.indices, X.data)

    def of_sparse(self, indptr: Array, columns: Array, values: Array) -> Array:
        """For rows in compressed sparse form, columns (nnz,) int64; those from n_features on are unknown."""
        return self._values(indptr.astype(INDPTR), columns + self._index_base, values.astype(VALUE))

    def _values(self, indptr: Array, numbers: Array, values: Array) -> Array:
        given = Features(indptr, numbers.astype(INDEX, copy=False), values)
        if not self._maps.shape.strings:
            given = _known(indptr, numbers, values, self._index_base, self._maps.shape.width)
        try:
            self._maps.check_row(int(np.diff(given.indptr).max(initial=0)))
        except FeaturesError as error:
            raise InputError(error.code, error.message, hint=error.hint) from None
        rows = Segment(
            np.zeros(given.n_rows, ROW_ID), np.zeros(given.n_rows, TARGET), np.zeros(given.n_rows, NORM), *given
        )  # fmt: skip
        found = [decision_values(part, self.w, 0.0) for part in Visited(self._maps).all_batches(rows)]
        return np.concatenate([np.empty((0, *self.w.shape[:-1])), *found])


def _known(indptr: Array, numbers: Array, values: Array, begin: int, end: int) -> Features:
    """The rows without features that the model does not know, which are passed over."""
    known = (numbers >= begin) & (numbers < end)
    if known.all():
        return Features(indptr, numbers.astype(INDEX, copy=False), values)
    ends = np.concatenate(([0], np.cumsum(known)))[indptr]
    return Features(ends, numbers[known].astype(INDEX), values[known])


def _by_number(model: Model) -> Array:
    """(index_base + n_features,) float64, or one such row a class: the weight of feature f at place f.

    No copy for base 0.
    """
    if model.index_base == 0:
        return np.ascontiguousarray(model.w, np.float64)
    w = np.zeros((*model.w.shape[:-1], model.n_features + model.index_base))
    w[..., model.index_base :] = model.w
    return w
