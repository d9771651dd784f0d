"""Questions to the data that are asked while they are read: what would make a model useless, or better than it is.

They are asked of the first rows, and only where rows are short enough for one column to matter. Columns that look like
ids or dates are found where tables are parsed, see `reader.parsers.tables.mixed.OddColumns`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from streamsvm.reader.certificate.ranking import Ranking
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.parsers.tables.mixed_columns import first_names
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import Array, Rows

MOST_ROWS, MOST_FEATURES = 4096, 512
_LEAST_ROWS = 50  # rows, before anything is said of them
_LEAST_OF_CLASS = 20  # rows of each class, before one column is said to tell the classes apart
_MOST_CLASSES = 100
LEAK = 0.99  # the area under the ROC curve of one column alone, beyond which its values are hardly known beforehand
_CONTRARY = 0.02  # the share of rows that are equal to others of another class, beyond which this is said


class Questions:
    """Keeps the first rows of an input. Call `add` with rows in order, not of strings or documents, then `warnings`."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._count = 0
        self._is_asked = True

    def add(self, rows: Rows) -> None:
        """Keep what is still wanted of these rows; with a feature beyond MOST_FEATURES, keep none any more."""
        if not self._is_asked or self._count >= MOST_ROWS:
            return
        taken = next(rows.pieces(MOST_ROWS - self._count))
        if int(taken.indices.max(initial=0)) > MOST_FEATURES:
            self._is_asked, self._rows = False, []
            return
        self._rows.append(taken)
        self._count += len(taken)

    def warnings(
        self,
        labels: Mapping[float, int],
        statistics: FeatureStatistics | None,
        input_: dict[str, Any] | None,
        base: int,
    ) -> Iterator[dict[str, str]]:
        """Yield a code and a message for each thing found.

        labels      label -> number of rows, of all rows; empty if labels are no classes
        statistics  those of the features of all rows
        input_      `Manifest.input`, which names the columns of a table; base: the number of the first feature
        """
        if not self._is_asked or self._count < _LEAST_ROWS or statistics is None:
            return
        X, y = _dense(self._rows), np.concatenate([rows.label for rows in self._rows])
        names = feature_names(input_, set(range(X.shape[1])), base)
        which = "" if sum(labels.values()) == len(y) else f" of the first {len(y):,} rows"
        if constant := [names[j] for j in _constant(X[0], statistics.of_width(X.shape[1]), input_, base)]:
            what = f"columns have one value in all rows: {first_names(constant)}"
            yield {"code": "columns_constant", "message": f"{what}. They say nothing; leave them out: drop_columns"}
        if len(labels) == 2 and (found := [names.get(j, f"feature {j}") for j in _leaks(X, y)]):
            what = f"columns tell both classes apart{which}, each alone, nearly without a fault: {first_names(found)}"
            help_ = "If they are not known before the label is, leave them out: the model would be worse than it seems"
            yield {"code": "columns_like_labels", "message": f"{what}. {help_}"}
        if 2 <= len(labels) <= _MOST_CLASSES and (share := _contrary(X, y)) > _CONTRARY:
            what = f"{share:.1%} of the rows{which} are equal to rows that more often have another label"
            yield {"code": "rows_contrary", "message": f"{what}: no model is right on them"}


def _dense(rows: list[Rows]) -> Array:
    """The rows as float32 (n, width), column j is feature j."""
    width = 1 + max(int(each.indices.max(initial=0)) for each in rows)
    X = np.zeros((sum(map(len, rows)), width), np.float32)
    begin = 0
    for each in rows:
        X[begin + np.repeat(np.arange(len(each)), np.diff(each.indptr)), each.indices] = each.values
        begin += len(each)
    return X


def _constant(first: Array, of_all: FeatureStatistics, input_: dict[str, Any] | None, base: int) -> list[int]:
    """The columns of numbers of a table, not of categories, that are in all rows what they are in the first row."""
    if input_ is None or "columns" not in input_:
        return []
    # None is larger, and so all are equal if their sum is that of equal ones; sums of up to 2^29 equal ones are exact.
    is_one = (of_all.largest == np.abs(first)) & (of_all.sums == first.astype(float) * of_all.n_rows)
    end = base + len(input_["columns"]) - len(input_["categorical"])
    return (base + np.flatnonzero(is_one[base:end])).tolist()


def _leaks(X: Array, y: Array) -> list[int]:
    """The columns of which each alone ranks the rows of one class above those of the other."""
    is_first = y == y[0]
    if min(is_first.sum(), (~is_first).sum()) < _LEAST_OF_CLASS:
        return []
    areas = [Ranking(column[is_first], column[~is_first]).figures()["auc"] for column in X.T.astype(float)]
    return [j for j, area in enumerate(areas) if area is not None and max(area, 1.0 - area) > LEAK]


def _contrary(X: Array, y: Array) -> float:
    """The share of rows that are equal to others, of which more have another label."""
    _, groups = np.unique(X.view(np.dtype((np.void, X.itemsize * X.shape[1]))).ravel(), return_inverse=True)
    pairs, counts = np.unique(np.stack([groups, np.unique(y, return_inverse=True)[1]]), axis=1, return_counts=True)
    most = np.zeros(groups.max() + 1, np.int64)
    np.maximum.at(most, pairs[0], counts)
    return 1.0 - float(most.sum()) / len(y)
