"""The confusion of classes, and the figures that follow from it."""

from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array

MOST_CONFUSED = 1000  # classes, whose confusion is a million numbers


class ClassCounts:
    """Counts of rows by what they are and what they are taken for; classes are places in a model's labels.

    is_weighted                       rows count as much as they weigh
    confusion (n_classes, n_classes)  rows that are of a class, by the class predicted; None of more than MOST_CONFUSED
    """

    def __init__(self, n_classes: int, is_weighted: bool = False) -> None:
        number = np.dtype(float if is_weighted else np.int64)
        self._is_weighted = is_weighted
        self._rows = np.zeros(n_classes, np.int64)
        self._own, self._predicted, self._right = (np.zeros(n_classes, number) for _ in range(3))
        self.confusion = np.zeros((n_classes, n_classes), number) if n_classes <= MOST_CONFUSED else None

    def add(self, y: Array, predicted: Array, weight: Array | None = None) -> None:
        """Classes (n_rows,) that rows have, and that they are taken for; their weights (n_rows,), if they count."""
        n_classes, is_right = len(self._rows), y == predicted
        self._rows += np.bincount(y, minlength=n_classes)
        self._own += np.bincount(y, weight, n_classes)
        self._predicted += np.bincount(predicted, weight, n_classes)
        self._right += np.bincount(y[is_right], None if weight is None else weight[is_right], n_classes)
        if self.confusion is not None:
            np.add.at(self.confusion, (y, predicted), 1 if weight is None else weight)

    @property
    def accuracy(self) -> float:
        """Share of the rows that are predicted as what they are."""
        return self._right.sum().item() / self._own.sum().item()

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of those classes that have rows."""
        there = self._own > 0
        return float(np.mean(self._right[there] / self._own[there]))

    def by_class(self) -> list[dict[str, Any]]:
        """rows, their weight if it counts, precision, recall and f1 of each; None: there is nothing to divide by."""
        columns = (self._rows, self._own, self._predicted, self._right)
        return [
            {
                "rows": rows,
                **({"weight": own} if self._is_weighted else {}),
                "precision": _share(right, predicted),
                "recall": _share(right, own),
                "f1": _share(2 * right, own + predicted),
            }
            for rows, own, predicted, right in zip(*(column.tolist() for column in columns), strict=True)
        ]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
