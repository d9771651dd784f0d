"""Turns what `fit` and `partial_fit` are given into sources of rows that the engine reads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from streamsvm.equal_rows import WeighedRows, are_few, joined
from streamsvm.errors import told_plainly
from streamsvm.frames import column_names, is_frame, is_plain, selected
from streamsvm.labels import Labels
from streamsvm.service.jobs.plan.plan import knows_weights
from streamsvm.sources import (
    Source,
    as_table,
    asks_for_table,
    chosen_columns,
    chunks,
    files,
    is_column,
    is_files,
    matrix,
)


class TrainingRows(BaseEstimator):
    """The part of an estimator that makes sources."""

    C: Any
    solver: str
    features: Any
    pace: str
    input_options: dict[str, Any] | None
    _dropped: tuple[str, ...]

    def _is_matrix(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether X is a matrix, or a frame that can be one: numbers without a gap, read with no option of tables."""
        with told_plainly():
            of_table = asks_for_table(self.input_options)
        if is_files(X) or (isinstance(X, Iterator) and not is_frame(X)):
            return False
        if not is_frame(X):
            return True
        is_named = y is None or is_column(y) or is_column(sample_weight)
        return not is_named and not of_table and is_plain(X)

    def _source(self, X: Any, y: Any, sample_weight: Any, labels: Labels) -> Source:
        """The source of files, frames or chunks."""
        self._dropped = ()
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
        """X, y and weights of a matrix or a data frame, checked; the first call fixes the number of columns."""
        is_first = getattr(self, "_workspace", None) is None
        with told_plainly():
            X, self._dropped = chosen_columns(X, self.input_options)
        if not is_first:
            X = self._in_known_order(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=is_first, **checks)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, column_or_1d(y, warn=True), weight

    def _matrix(self, X: Any, y: Any, weight: Any, are_all: bool, has_labels: bool) -> Source:
        """The source of a checked matrix.

        are_all     no more rows will come
        has_labels  y are classes
        """
        space = getattr(self, "_workspace", None)
        if space is not None and space.is_table:
            return as_table(X, y, weight, space.manifest.input, self.input_options)
        rows = WeighedRows(X, y, weight)
        if are_all and self._may_join_rows() and are_few(X):
            rows = joined(rows, has_labels)
        return matrix(*rows, getattr(self, "feature_names_in_", None), self.input_options)

    def _may_join_rows(self) -> bool:
        """Whether training is the same on a row of weight 2 as on two equal rows.

        It is not where rows are held out one by one, feature maps are fitted to rows, or visits are counted.
        """
        solver = self._solver() if self.solver == "auto" else self.solver
        holds_out = np.ndim(self.C) > 0 or getattr(self, "probability", None) is not None
        is_plain = self.pace == "adaptive" and not self.features and not holds_out
        return is_plain and knows_weights(solver)

    def _solver(self) -> str:
        """The solver that "auto" stands for."""
        return "streamsvm"

    def _in_known_order(self, X: Any) -> Any:
        """A data frame with its columns in the order of earlier calls; scikit-learn refuses other columns."""
        known = vars(self).get("feature_names_in_", ())
        return selected(X, known) if sorted(column_names(X) or ()) == sorted(known) and len(known) else X
