"""Turns the arguments of `fit` and `partial_fit` into sources of rows that ingest reads."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from streamsvm.errors import told_plainly
from streamsvm.labels import Labels
from streamsvm.service.jobs.plan.plan import knows_weights
from streamsvm.service.remote.frames import column_names, is_column, is_frame, is_plain, selected
from streamsvm.sources import (
    Source,
    as_table,
    asks_for_table,
    chosen_columns,
    chunks,
    files,
    is_files,
    matrix,
)
from streamsvm.storage.rows.csr import VALUE, Array

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 20  # `joined` takes up to 25 ms for this many
_WORD = np.uint64


class TrainingRows(BaseEstimator):
    """The part of an estimator that makes sources of rows."""

    C: Any
    solver: str
    features: Any
    pace: str
    input_options: dict[str, Any] | None
    _dropped: tuple[str, ...]
    _mean: Array | None  # of a matrix whose rows have weights

    def _is_matrix(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether X is a matrix, or a frame that can be one: numbers, none missing, and no options for tables."""
        with told_plainly():
            of_table = asks_for_table(self.input_options)
        if is_files(X) or (isinstance(X, Iterator) and not is_frame(X)):
            return False
        if not is_frame(X):
            return True
        is_named = y is None or is_column(y) or is_column(sample_weight)
        return not is_named and not of_table and is_plain(X)

    def _source(self, X: Any, y: Any, sample_weight: Any, labels: Labels) -> Source:
        """Make the source of files, of a frame, or of an iterator of chunks."""
        self._dropped, self._mean = (), None
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if is_files(X):
            with told_plainly():
                return files(X, y, sample_weight, self.input_options)
        if is_frame(X):
            y = y if y is None or is_column(y) else column_or_1d(y, warn=True)
        with told_plainly():
            return chunks(X, y, sample_weight, labels, self.input_options)

    def _in_memory(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Any, Any]:
        """Return checked X, y and weights of a matrix or data frame; the first call fixes the number of columns."""
        is_first = getattr(self, "_workspace", None) is None
        with told_plainly():
            X, self._dropped = chosen_columns(X, self.input_options)
        if not is_first:
            X = self._in_known_order(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=is_first, **checks)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, column_or_1d(y, warn=True), weight

    def _matrix(self, X: Any, y: Any, weight: Any, are_all: bool, has_labels: bool) -> Source:
        """Make the source of a checked matrix.

        are_all     whether no more rows will come
        has_labels  whether y are numbers of classes, not targets of regression
        """
        space = getattr(self, "_workspace", None)
        if space is not None and space.is_table:
            return as_table(X, y, weight, space.manifest.input, self.input_options)
        rows = WeighedRows(X, y, weight)
        if are_all and self._may_join_rows() and are_few(X):
            rows = joined(rows, has_labels)
        self._mean = None
        if rows.weight is not None and are_all and rows.weight.any():
            self._mean = rows.X.T @ rows.weight / rows.weight.sum()
        return matrix(*rows, getattr(self, "feature_names_in_", None), self.input_options)

    def _may_join_rows(self) -> bool:
        """Whether training is the same on a row of weight 2 as on two equal rows.

        It is not if rows are held out one by one, feature maps are fitted to rows, or the solver counts visits.
        """
        solver = self._solver() if self.solver == "auto" else self.solver
        holds_out = np.ndim(self.C) > 0 or getattr(self, "probability", None) is not None
        is_plain = self.pace == "adaptive" and not self.features and not holds_out
        return is_plain and knows_weights(solver)

    def _solver(self) -> str:
        """Return the solver that "auto" stands for."""
        return "streamsvm"

    def _in_known_order(self, X: Any) -> Any:
        """Return a data frame with its columns in the order of earlier calls; scikit-learn refuses other columns."""
        known = vars(self).get("feature_names_in_", ())
        return selected(X, known) if sorted(column_names(X) or ()) == sorted(known) and len(known) else X


class WeighedRows(NamedTuple):
    """X (n_rows, n_columns), an array or CSR; y (n_rows,) numbers; weight (n_rows,), None: every row has weight 1."""

    X: Any
    y: Array
    weight: Array | None


def are_few(X: Any) -> bool:
    """Tell whether the rows of X are so few that `joined` takes 25 ms at most."""
    return X.shape[0] <= _MOST_ROWS and (X.nnz if sparse.issparse(X) else X.size) <= _MOST_VALUES


def joined(given: WeighedRows, keeps_labels: bool) -> WeighedRows:
    """Join rows that are equal as float32 and have the same y, adding up their weights; drop rows of weight 0.

    Two equal rows become one of weight 2, in whatever order rows come: the trained model has the same bytes.

    keeps_labels  return all rows unchanged if a value of y would be lost

    Rows that ingest will refuse are also returned unchanged, since ingest says why.
    """
    X = sparse.csr_matrix(given.X, copy=sparse.issparse(given.X))
    X.sum_duplicates()
    X.eliminate_zeros()
    with np.errstate(over="ignore"):
        X.data = X.data.astype(VALUE, copy=False)
    y = given.y + 0.0
    weight = np.ones(len(y)) if given.weight is None else given.weight
    is_sound = all(np.isfinite(each).all() for each in (X.data, y, weight)) and weight.min(initial=0.0) >= 0.0
    counts = weight > 0.0
    if not is_sound or not counts.any() or (keeps_labels and not np.isin(y, y[counts]).all()):
        return given
    hashes = _hashes(X, y)
    order = np.lexsort((weight, hashes))  # sums of weights are rounded alike in any order of rows
    order = order[counts[order]]
    X, y, weight, hashes = X[order], y[order], weight[order], hashes[order]
    twice = np.flatnonzero(hashes[1:] == hashes[:-1])
    twice = twice[((X[twice + 1] != X[twice]).getnnz(axis=1) == 0) & (y[twice + 1] == y[twice])]
    is_first = np.ones(len(y), bool)
    is_first[twice + 1] = False
    first = np.flatnonzero(is_first)
    weight = np.add.reduceat(weight, first)
    return WeighedRows(X[first], y[first], None if (weight == 1.0).all() else weight)


def _hashes(X: sparse.csr_matrix, y: Array) -> Array:
    """Return a hash (n,) uint64 for each row, which depends only on the row's values, their columns, and y."""
    values = X.data.view(np.uint32).astype(_WORD) | X.indices.astype(_WORD) << _WORD(32)
    sums = np.concatenate([np.zeros(1, _WORD), np.cumsum(_mixed(values), dtype=_WORD)])
    return _mixed(sums[X.indptr[1:]] - sums[X.indptr[:-1]] + _mixed(y.view(_WORD)))


def _mixed(words: Array) -> Array:
    """Mix the bits of each word (n,) uint64: each bit depends on all bits (Steele, Lea, Flood 2014, "splitmix64")."""
    words = (words ^ (words >> _WORD(30))) * _WORD(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> _WORD(27))) * _WORD(0x94D049BB133111EB)
    return words ^ (words >> _WORD(31))
