"""How far probabilities can be believed: log loss, Brier score, and a table of what was said against what was so.

Of two classes all three look at the probability of the first, as scikit-learn does of the positive one. Of several the
Brier score sums over the classes (Brier 1950), and the table looks at the probability of the class predicted (Guo et
al., "On calibration of modern neural networks", ICML 2017).
"""

from typing import Any

import numpy as np

from storage.csr import Array

BINS = 10
_LEAST = float(np.finfo(float).eps)  # scikit-learn's: a row said to be impossible costs 36, not infinity


class Calibration:
    """`add` every row once, in any order."""

    def __init__(self) -> None:
        self._n_rows = 0
        self._log_loss = self._squares = 0.0
        self._rows, self._said, self._so = np.zeros(BINS, np.int64), np.zeros(BINS), np.zeros(BINS, np.int64)

    def add(self, y: Array, predicted: Array, probabilities: Array) -> None:
        """Classes (n_rows,) that rows have, and that they are taken for; probabilities (n_rows, n_classes)."""
        rows = np.arange(len(y))
        own = probabilities[rows, y]
        self._n_rows += len(y)
        self._log_loss -= float(np.log(np.clip(own, _LEAST, 1.0 - _LEAST)).sum())
        if probabilities.shape[1] == 2:
            self._squares += float(np.sum((1.0 - own) ** 2))
            self._count(probabilities[:, 0], y == 0)
        else:
            self._squares += float(np.sum(probabilities**2) + np.sum(1.0 - 2.0 * own))
            self._count(probabilities[rows, predicted], y == predicted)

    def _count(self, said: Array, so: Array) -> None:
        place = np.minimum((said * BINS).astype(np.int64), BINS - 1)
        self._rows += np.bincount(place, minlength=BINS)
        self._said += np.bincount(place, said, BINS)
        self._so += np.bincount(place[so], minlength=BINS)

    def figures(self) -> dict[str, Any]:
        """log_loss and brier_score a row; reliability: rows, mean probability and share that was so of each bin."""
        reliability = [
            {
                "from": place / BINS,
                "to": (place + 1) / BINS,
                "rows": int(rows),
                "probability": float(said / rows) if rows else None,
                "share": float(so / rows) if rows else None,
            }
            for place, (rows, said, so) in enumerate(zip(self._rows, self._said, self._so, strict=True))
        ]
        return {
            "log_loss": self._log_loss / self._n_rows,
            "brier_score": self._squares / self._n_rows,
            "reliability": reliability,
        }
