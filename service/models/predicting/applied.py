"""Computes decision values, without the intercept, for all kinds of models, and the contributions of features."""

from typing import Any

import numpy as np
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Features, FeaturesError
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.machine.abandoned_work import check_wanted
from streamsvm.storage.models.decision import KernelMachine, decision_values, predicted_classes
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array, Rows
from streamsvm.storage.rows.segment import NORM, Segment

_ROWS_A_PIECE = 1 << 12  # of a matrix, made sparse at a time
MOST_CONTRIBUTIONS = 10  # of a row


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

    def of_columns(self, X: Any) -> Array:
        """Decision values of X (n_rows, n_features), dense or of scipy.sparse; column 0 is the first feature."""
        X = sparse.csr_matrix(X)
        X.sum_duplicates()
        return self.of_sparse(X.indptr, X.indices, X.data)

    def of_sparse(self, indptr: Array, columns: Array, values: Array) -> Array:
        """Decision values of rows in CSR form, columns (nnz,) int64 from 0; columns from n_features on are unknown."""
        return self._values(indptr.astype(INDPTR), columns + self._index_base, values.astype(VALUE))

    def _values(self, indptr: Array, numbers: Array, values: Array) -> Array:
        features = Features(indptr, numbers.astype(INDEX, copy=False), values)
        if not self._maps.shape.strings:
            features = _without_unknown(indptr, numbers, values, self._index_base, self._maps.shape.width)
        try:
            self._maps.check_row(int(np.diff(features.indptr).max(initial=0)))
        except FeaturesError as error:
            raise InputError(error.code, error.message, hint=error.hint) from None
        rows = Segment.unlabelled(np.zeros(features.n_rows, NORM), *features)
        batches = [decision_values(batch, self.w, 0.0) for batch in Visited(self._maps).all_batches(rows)]
        return np.concatenate([np.empty((0, *self.w.shape[:-1])), *batches])


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


def contributions(model: Model, rows: Rows, decision: Array) -> list[dict[str, float]]:
    """Return, for each row, the terms w_j x_j of largest magnitude by feature name, the largest first.

    A feature without a name goes by its number. All terms of a row and the intercept add up to its decision value;
    terms that are 0 are left out, and so are features that the model does not know. With more than two classes, the
    terms are those of the predicted class.
    """
    d, base = model.n_features, model.index_base
    row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    places = rows.indices.astype(np.int64) - base
    is_known = (places >= 0) & (places < d)
    row, places, values = row[is_known], places[is_known], rows.values[is_known].astype(np.float64)
    weights = model.w[predicted_classes(decision)[row], places] if model.is_multiclass else model.w[places]
    terms = values * weights
    order = np.lexsort((places, -np.abs(terms), row))
    order = order[terms[order] != 0]
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    chosen = order[rank < MOST_CONTRIBUTIONS]
    numbers = places[chosen] + base
    names: dict[int, str] = feature_names(model.about.get("input"), set(numbers.tolist()), base)
    found: list[dict[str, float]] = [{} for _ in range(len(rows))]
    for k, number, term in zip(row[chosen].tolist(), numbers.tolist(), terms[chosen].tolist(), strict=True):
        found[k][names.get(number, str(number))] = term
    return found
