"""Computes decision values, without the intercept, for all kinds of models."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Features, FeaturesError
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.models.decision import KernelMachine, decision_values
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array, Rows
from streamsvm.storage.rows.segment import NORM, Segment

_ROWS_A_PIECE = 1 << 12  # of a matrix, made sparse at a time


def applied(model: Model) -> "Linear | AppliedMachine | Mapped":
    """Make the object that computes a model's decision values; threads may share it, for it keeps no state."""
    if model.maps is not None:
        return Mapped(model.maps, model.w, model.index_base)
    return Linear(model) if model.vectors is None else AppliedMachine(model.vectors, model.w, model.index_base)


class Linear:
    """The decision function <w, x> of a linear model; w is (n_features,) or (n_classes, n_features)."""

    def __init__(self, model: Model) -> None:
        self._w = _by_number(model)
        self.w = self._w[..., model.index_base :]

    def of_rows(self, rows: Rows) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        return decision_values(rows, self._w, 0.0)

    def seen(self, rows: Rows) -> Features:
        """Return the rows as `w` multiplies them: features count from its first; those that it lacks are left out."""
        numbers = rows.indices.astype(np.int64) - (self._w.shape[-1] - self.w.shape[-1])
        return _without_unknown(rows.indptr, numbers, rows.values, 0, self.w.shape[-1])

    def of_columns(self, X: Any) -> Array:
        """Decision values of X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        if self.w.ndim == 1 or not sparse.issparse(X):
            return np.asarray(X @ self.w.T)
        # One class at a time: for all at once scipy would copy the weights.
        products = np.empty((X.shape[0], len(self.w)))
        for number, weights in enumerate(self.w):
            check_wanted()
            products[:, number] = X @ weights
        return products


class AppliedMachine:
    """The decision function sum_s beta_s k(z_s, x); features of the support vectors z_s count from `index_base`."""

    def __init__(self, vectors: SupportVectors, beta: Array, index_base: int) -> None:
        self.w = beta
        self._machine, self._index_base = KernelMachine(vectors, beta), index_base

    def of_rows(self, rows: Rows) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        return self._machine.decision_values(rows)

    def of_columns(self, X: Any) -> Array:
        """Decision values of X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        decision = np.empty((X.shape[0], *self.w.shape[:-1]))
        for begin in range(0, len(decision), _ROWS_A_PIECE):
            piece = sparse.csr_matrix(X[begin : begin + _ROWS_A_PIECE])
            piece.sum_duplicates()
            decision[begin : begin + _ROWS_A_PIECE] = self._machine.values(
                piece.indptr, piece.indices + self._index_base, piece.data
            )
        return decision


class Mapped:
    """The decision function <w, maps(x)>; w, (width,) or (n_classes, width), weighs the features that the maps make."""

    def __init__(self, maps: FeatureMaps, w: Array, index_base: int) -> None:
        self.w = w
        self._maps, self._index_base = maps, index_base

    def of_rows(self, rows: Rows) -> Array:
        """Decision values of rows, (n_rows,) or (n_rows, n_classes); features are numbered as in the input."""
        return self._values(rows.indptr, rows.indices, rows.values)

    def seen(self, rows: Rows) -> Features:
        """Return the rows as `w` multiplies them, mapped."""
        batches = list(self._batches(rows.indptr, rows.indices, rows.values))
        lengths = [np.diff(batch.indptr) for batch in batches]
        return Features(
            np.cumsum(np.concatenate([[0], *lengths])),
            np.concatenate([np.empty(0, INDEX), *(batch.indices for batch in batches)]),
            np.concatenate([np.empty(0, VALUE), *(batch.values for batch in batches)]),
        )

    def of_columns(self, X: Any) -> Array:
        """Decision values of X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        X = sparse.csr_matrix(X)
        X.sum_duplicates()
        return self.of_sparse(X.indptr, X.indices, X.data)

    def of_sparse(self, indptr: Array, columns: Array, values: Array) -> Array:
        """Decision values of rows in CSR form, columns (nnz,) int64 from 0; columns from n_features on are unknown."""
        return self._values(indptr.astype(INDPTR), columns + self._index_base, values.astype(VALUE))

    def _values(self, indptr: Array, numbers: Array, values: Array) -> Array:
        found = [decision_values(batch, self.w, 0.0) for batch in self._batches(indptr, numbers, values)]
        return np.concatenate([np.empty((0, *self.w.shape[:-1])), *found])

    def _batches(self, indptr: Array, numbers: Array, values: Array) -> Iterator[Segment]:
        features = Features(indptr, numbers.astype(INDEX, copy=False), values)
        if not self._maps.shape.strings:
            features = _without_unknown(indptr, numbers, values, self._index_base, self._maps.shape.width)
        try:
            self._maps.check_row(int(np.diff(features.indptr).max(initial=0)))
        except FeaturesError as error:
            raise InputError(error.code, error.message, hint=error.hint) from None
        rows = Segment.unlabelled(np.zeros(features.n_rows, NORM), *features)
        yield from Visited(self._maps).all_batches(rows)


def _without_unknown(indptr: Array, numbers: Array, values: Array, begin: int, end: int) -> Features:
    """Drop features outside [begin, end), which the model does not know."""
    is_known = (numbers >= begin) & (numbers < end)
    if is_known.all():
        return Features(indptr, numbers.astype(INDEX, copy=False), values)
    ends = np.concatenate(([0], np.cumsum(is_known)))[indptr]
    return Features(ends, numbers[is_known].astype(INDEX), values[is_known])


def _by_number(model: Model) -> Array:
    """Return weights (index_base + n_features,), or (n_classes, ...), w[..., f] for feature f; no copy for base 0."""
    if model.index_base == 0:
        return np.ascontiguousarray(model.w, np.float64)
    w = np.zeros((*model.w.shape[:-1], model.n_features + model.index_base))
    w[..., model.index_base :] = model.w
    return w
