"""Counts rows by true and predicted class, and computes accuracy, precision, recall and F1 from these counts."""

from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array

MOST_CONFUSED = 1000  # classes, whose confusion is a million numbers


class ClassCounts:
    """Counts of rows by true and predicted class; a class is a place in the model's labels.

    is_weighted                       rows count by their weights, else each counts once
    confusion (n_classes, n_classes)  counts by true class and predicted class; None for more than MOST_CONFUSED classes
    """

    def __init__(self, n_classes: int, is_weighted: bool = False) -> None:
        number = np.dtype(float if is_weighted else np.int64)
        self._is_weighted = is_weighted
        self._rows = np.zeros(n_classes, np.int64)
        self._own, self._predicted, self._right = (np.zeros(n_classes, number) for _ in range(3))
        self.confusion = np.zeros((n_classes, n_classes), number) if n_classes <= MOST_CONFUSED else None

    def add(self, y: Array, predicted: Array, weight: Array | None = None) -> None:
        """Count rows with these true classes y, predicted classes and, if they count, weights, (n_rows,) each."""
        n_classes, is_right = len(self._rows), y == predicted
        self._rows += np.bincount(y, minlength=n_classes)
        self._own += np.bincount(y, weight, n_classes)
        self._predicted += np.bincount(predicted, weight, n_classes)
        self._right += np.bincount(y[is_right], None if weight is None else weight[is_right], n_classes)
        if self.confusion is not None:
            np.add.at(self.confusion, (y, predicted), 1 if weight is None else weight)

    @property
    def accuracy(self) -> float:
        """Share of the rows whose predicted class is their true class."""
        return self._right.sum().item() / self._own.sum().item()

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of those classes that have rows."""
        there = self._own > 0
        return float(np.mean(self._right[there] / self._own[there]))

    def by_class(self) -> list[dict[str, Any]]:
        """For each class: rows, their weight if weights count, precision, recall and f1; None for a division by 0."""
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
