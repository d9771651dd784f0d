"""How many rows of each class were told apart from the others, and what follows from that."""

from typing import Any

import numpy as np

from storage.csr import Array

MOST_CONFUSED = 1000  # classes, whose confusion is a million numbers


class ClassCounts:
    """Counts of rows by what they are and what they are taken for; classes are places in a model's labels.

    confusion (n_classes, n_classes)  rows that are of a class, by the class predicted; None of more than MOST_CONFUSED
    """

    def __init__(self, n_classes: int) -> None:
        self._rows, self._predicted, self._right = (np.zeros(n_classes, np.int64) for _ in range(3))
        self.confusion = np.zeros((n_classes, n_classes), np.int64) if n_classes <= MOST_CONFUSED else None

    def add(self, y: Array, predicted: Array) -> None:
        """Classes (n_rows,) that rows have, and that they are taken for."""
        n_classes = len(self._rows)
        self._rows += np.bincount(y, minlength=n_classes)
        self._predicted += np.bincount(predicted, minlength=n_classes)
        self._right += np.bincount(y[y == predicted], minlength=n_classes)
        if self.confusion is not None:
            np.add.at(self.confusion, (y, predicted), 1)

    @property
    def accuracy(self) -> float:
        """Share of the rows that are predicted as what they are."""
        return int(self._right.sum()) / int(self._rows.sum())

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of those classes that have rows."""
        there = self._rows > 0
        return float(np.mean(self._right[there] / self._rows[there]))

    def by_class(self) -> list[dict[str, Any]]:
        """rows, precision, recall and f1 of each; None where there is nothing to divide by."""
        return [
            {
                "rows": rows,
                "precision": _share(right, predicted),
                "recall": _share(right, rows),
                "f1": _share(2 * right, rows + predicted),
            }
            for rows, predicted, right in zip(
                self._rows.tolist(), self._predicted.tolist(), self._right.tolist(), strict=True
            )
        ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
