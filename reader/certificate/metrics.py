"""Metrics of predictions, one set for evaluations and for rows held out: each adds rows some at a time.

With two classes log loss, Brier score and the reliability table use the probability of the first class; scikit-learn
uses that of the positive class. With more classes the Brier score sums over the classes (Brier 1950), and the table
uses the probability of the predicted class (Guo et al., "On calibration of modern neural networks", ICML 2017).
"""

from typing import Any

import numpy as np

from streamsvm.storage.rows.csr import Array

BINS = 10
_LEAST = float(np.finfo(float).eps)  # as in scikit-learn: log loss of a class with probability 0 is 36, not infinite


class Calibration:
    """Measures the quality of probabilities; `add` every row once. is_weighted: a row counts as much as its weight."""

    def __init__(self, is_weighted: bool = False) -> None:
        self._is_weighted = is_weighted
        self._log_loss = self._squares = 0.0
        self._rows = np.zeros(BINS, np.int64)
        self._weight, self._said, self._so = np.zeros((3, BINS))

    def add(self, y: Array, predicted: Array, probabilities: Array, weight: Array | None = None) -> None:
        """Add rows: true classes y and predicted classes (n,), probabilities (n, n_classes), weights (n,) or None."""
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
        """Return mean log_loss, mean brier_score and reliability: each bin's rows, mean probability, observed share."""
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


MOST_CONFUSED = 1000  # most classes for which a confusion matrix, then of a million numbers, is made


class ClassCounts:
    """Counts of rows by true and predicted class. Class k is the one with the model's label number k, from 0.

    is_weighted                       a row counts as much as its weight; False: each row counts 1
    confusion (n_classes, n_classes)  counts by true class and predicted class; None for more than MOST_CONFUSED classes
    """

    def __init__(self, n_classes: int, is_weighted: bool = False) -> None:
        number = np.dtype(float if is_weighted else np.int64)
        self._is_weighted = is_weighted
        self._rows = np.zeros(n_classes, np.int64)
        self._own, self._predicted, self._right = (np.zeros(n_classes, number) for _ in range(3))
        self.confusion = np.zeros((n_classes, n_classes), number) if n_classes <= MOST_CONFUSED else None

    def add(self, y: Array, predicted: Array, weight: Array | None = None) -> None:
        """Add rows: their true classes y, predicted classes and, if weights count, weights, (n_rows,) each."""
        n_classes, is_right = len(self._rows), y == predicted
        self._rows += np.bincount(y, minlength=n_classes)
        self._own += np.bincount(y, weight, n_classes)
        self._predicted += np.bincount(predicted, weight, n_classes)
        self._right += np.bincount(y[is_right], None if weight is None else weight[is_right], n_classes)
        if self.confusion is not None:
            np.add.at(self.confusion, (y, predicted), 1 if weight is None else weight)

    @property
    def accuracy(self) -> float:
        """Share of the rows, by weight if weights count, whose predicted class is the true class."""
        return self._right.sum().item() / self._own.sum().item()

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall over the classes that have rows."""
        there = self._own > 0
        return float(np.mean(self._right[there] / self._own[there]))

    def figures(self) -> dict[str, float | None]:
        """Return accuracy, balanced_accuracy, f1 and f1_macro.

        f1        of two classes, that of the first, the positive one; of more classes, f1_macro
        f1_macro  the mean of F1 over the classes that rows have, or are predicted to have
        """
        by_class = [each["f1"] for each in self.by_class()]
        mean = float(np.mean([each for each in by_class if each is not None]))
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "f1": by_class[0] or 0.0 if len(by_class) == 2 else mean,
            "f1_macro": mean,
        }

    def by_class(self) -> list[dict[str, Any]]:
        """Return each class's rows, weight if weights count, precision, recall and f1; None if a denominator is 0."""
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


class NumberErrors:
    """Measures predictions of numbers; `add` every row once. Rows count as much as their weights, if they have some.

    Means and moments of batches are merged (Chan, Golub and LeVeque 1979), so that few digits are lost.
    """

    def __init__(self) -> None:
        self.weight = self._squares = self._absolute = 0.0
        self._mean = np.zeros(2)  # of targets and of predictions
        self._moments = np.zeros((2, 2))

    def add(self, y: Array, predicted: Array, weight: Array | None = None) -> None:
        """Add rows: targets y, predicted numbers and weights, (n,) each; None: each row counts 1."""
        weight = np.ones(len(y)) if weight is None else weight
        added = float(weight.sum())
        if not added:
            return
        errors = predicted - y
        self._squares += float(weight @ errors**2)
        self._absolute += float(weight @ np.abs(errors))
        both = np.stack([y, predicted]).astype(float)
        # Differences from the first row: equal numbers have a variance of exactly 0.
        mean = both[:, 0] + (both - both[:, :1]) @ weight / added
        centred = both - mean[:, None]
        away = mean - self._mean
        total = self.weight + added
        self._moments += (centred * weight) @ centred.T + np.outer(away, away) * (self.weight * added / total)
        self._mean = mean if not self.weight else self._mean + away * (added / total)
        self.weight = total

    def figures(self) -> dict[str, float | None]:
        """Return mse, mae, r2 and squared_correlation; the last two are None where these rows do not determine them.

        mse and mae are the means of squared and absolute errors; r2 is 1 - mse / (variance of the targets).
        LIBLINEAR's squared_correlation stays the same if predictions are off by a factor or a constant.
        """
        (variance, covariance), (_, of_predicted) = self._moments.tolist()
        both = variance * of_predicted
        return {
            "mse": self._squares / self.weight,
            "mae": self._absolute / self.weight,
            "r2": 1.0 - self._squares / variance if variance > 0 else None,
            "squared_correlation": covariance**2 / both if both > 0 else None,
        }
