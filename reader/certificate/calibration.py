"""Measures predicted probabilities: log loss, Brier score, and a table of predicted against observed frequencies.

With two classes all three use the probability of the first class, as scikit-learn uses that of the positive one. With
more classes the Brier score sums over the classes (Brier 1950), and the table uses the probability of the predicted
class (Guo et al., "On calibration of modern neural networks", ICML 2017).
"""

from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array

BINS = 10
_LEAST = float(np.finfo(float).eps)  # scikit-learn's: a row whose class has probability 0 costs 36, not infinity


class Calibration:
    """`add` every row once, in any order. is_weighted: rows count by their weights, else each counts once."""

    def __init__(self, is_weighted: bool = False) -> None:
        self._is_weighted = is_weighted
        self._log_loss = self._squares = 0.0
        self._rows = np.zeros(BINS, np.int64)
        self._weight, self._said, self._so = np.zeros((3, BINS))

    def add(self, y: Array, predicted: Array, probabilities: Array, weight: Array | None = None) -> None:
        """Count rows: true and predicted classes (n_rows,), probabilities (n_rows, n_classes), weights (n_rows,)."""
        rows = np.arange(len(y))
        own, weight = probabilities[rows, y], np.ones(len(y)) if weight is None else weight
        self._log_loss -= float(weight @ np.log(np.clip(own, _LEAST, 1.0 - _LEAST)))
        if probabilities.shape[1] == 2:
            self._squares += float(weight @ (1.0 - own) ** 2)
            self._count(probabilities[:, 0], y == 0, weight)
        else:
            self._squares += float(weight @ (np.sum(probabilities**2, axis=1) + 1.0 - 2.0 * own))
            self._count(probabilities[rows, predicted], y == predicted, weight)

    def _count(self, said: Array, so: Array, weight: Array) -> None:
        place = np.minimum((said * BINS).astype(np.int64), BINS - 1)
        self._rows += np.bincount(place, minlength=BINS)
        self._weight += np.bincount(place, weight, BINS)
        self._said += np.bincount(place, weight * said, BINS)
        self._so += np.bincount(place, weight * so, BINS)

    def figures(self) -> dict[str, Any]:
        """Mean log_loss and brier_score; reliability: for each bin its rows, mean probability and observed share."""
        columns = (self._rows, self._weight, self._said, self._so)
        reliability = [
            {
                "from": place / BINS,
                "to": (place + 1) / BINS,
                "rows": rows,
                **({"weight": weight} if self._is_weighted else {}),
                "probability": said / weight if weight else None,
                "share": so / weight if weight else None,
            }
            for place, (rows, weight, said, so) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        ]
        total = float(self._weight.sum())
        return {
            "log_loss": self._log_loss / total,
            "brier_score": self._squares / total,
            "reliability": reliability,
        }
