"""Evaluates a model in one pass over all rows; computes metrics of predictions, also of a cross-validation's folds.

With two classes log loss, Brier score and the reliability table use the probability of the first class; scikit-learn
uses that of the positive class. With more classes the Brier score sums over the classes (Brier 1950), and the table
uses the probability of the predicted class (Guo et al., "On calibration of modern neural networks", ICML 2017).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.probability import Sigmoid, probabilities
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment

_SCORES_AT_ONCE = 1 << 20
WEIGHTED = np.dtype(complex)


def weighted(scores: Array, weight: Array) -> Array:
    """Pack scores (n,) and weights (n,) into one complex array (n,), so that sorting keeps each pair together."""
    return scores + 1j * weight


def area_under_curve(positive: Array, negative: Array) -> float | None:
    """Return the area under the ROC curve (Fawcett 2006, section 7: the Wilcoxon statistic); None if a class is empty.

    It is the share of all pairs of a positive and a negative row in which the positive row scores higher; ties count
    half. A pair of WEIGHTED scores counts as much as the product of its weights.
    positive, negative  scores (n,) and (m,) of the two classes; sorted in place, also in mapped files
    """
    if not len(positive) or not len(negative):
        return None
    # numpy sorts complex numbers by their real parts, and equal real parts by the imaginary parts.
    positive.sort()
    negative.sort()
    return _weighted(positive, negative) if positive.dtype == WEIGHTED else _counted(positive, negative)


def _counted(positive: Array, negative: Array) -> float:
    twice = 0
    for begin in range(0, len(positive), _SCORES_AT_ONCE):
        scores = positive[begin : begin + _SCORES_AT_ONCE]
        for side in ("left", "right"):
            twice += int(np.searchsorted(negative, scores, side).sum())
    return twice / (2 * len(positive) * len(negative))


def _weighted(positive: Array, negative: Array) -> float | None:
    # Replace weights by their running sums: these ascend, so that the complex numbers stay sorted.
    np.cumsum(negative.imag, out=negative.imag)
    total, of_negative = float(positive.imag.sum()), float(negative.imag[-1])
    if not total or not of_negative:
        return None
    found = 0.0
    for begin in range(0, len(positive), _SCORES_AT_ONCE):
        scores = positive[begin : begin + _SCORES_AT_ONCE]
        for end in (-np.inf, np.inf):
            bounds = scores.copy()
            bounds.imag = end
            below = np.searchsorted(negative, bounds)
            found += float(scores.imag @ np.where(below > 0, negative.imag[below - 1], 0.0))
    return found / (2.0 * total * of_negative)


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


@dataclass(frozen=True)
class Applied:
    """A model, prepared for evaluation on a dataset.

    values             computes the decision values (n,) or (n, n_classes) of rows, which have the feature numbers of
                       the dataset's blocks; any thread may call it
    unknown (width,)   bool: the model does not know the feature; None: it knows all features
    losses             computes sum_i C_i loss_i from rows and their decision values; None: losses are not wanted
    is_weighted        a row counts as much as its weight in all metrics; False: each row counts 1
    """

    values: Callable[[Segment], Array]
    unknown: Array | None
    losses: Callable[[Segment, Array], float] | None
    is_weighted: bool = False


class EvaluationPass:
    """An evaluation in one pass: call `look`, then `add`, once for each batch of rows; batches may come in any order.

    losses            sum_i C_i loss_i over the rows added
    weight            sum of the weights of the rows added; rows without weights have weight 1
    unknown_features  number of stored values whose feature the model does not know
    """

    def __init__(self, applied: Applied) -> None:
        self._applied = applied
        self.losses = self.weight = 0.0
        self.unknown_features = 0

    def look(self, rows: Segment) -> Array:
        """Return the decision values of the rows, (n,) or (n, n_classes). Any thread may call it."""
        return self._applied.values(rows)

    def add(self, rows: Segment, decision: Array) -> None:
        """Add rows to the figures; `decision` are the decision values that `look` returned for the rows."""
        losses, unknown = self._applied.losses, self._applied.unknown
        if losses is not None:
            self.losses += losses(rows, decision)
        self.weight += float(self._weights_or_ones(rows).sum())
        if unknown is not None:
            self.unknown_features += int(np.count_nonzero(unknown[rows.indices]))

    def _weights(self, rows: Segment) -> Array | None:
        """Return the rows' weights (n,) if the evaluation counts rows by weight, else None."""
        return self._weights_or_ones(rows) if self._applied.is_weighted else None

    def _weights_or_ones(self, rows: Segment) -> Array:
        # Rows that were added to the dataset without weights have an empty column.
        return rows.weight if len(rows.weight) else np.ones(len(rows))


class ClassificationPass(EvaluationPass):
    """Evaluation of a model with `n_classes` classes. A row's class code is the index of its label in model.labels.

    counts        counts of rows by true and predicted class
    calibration   measures the probabilities that the `sigmoid` computes; None without a sigmoid
    """

    def __init__(self, applied: Applied, n_classes: int, sigmoid: Sigmoid | None) -> None:
        super().__init__(applied)
        self._sigmoid = sigmoid
        self.counts = ClassCounts(n_classes, applied.is_weighted)
        self.calibration = None if sigmoid is None else Calibration(applied.is_weighted)

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        y, predicted, weight = rows.class_code.astype(np.int64), predicted_classes(decision), self._weights(rows)
        self.counts.add(y, predicted, weight)
        if self.calibration is not None and self._sigmoid is not None:
            self.calibration.add(y, predicted, probabilities(decision, self._sigmoid), weight)


class BinaryPass(ClassificationPass):
    """Evaluation of a model of two classes; the first class, with code 0, is the positive one.

    scores (n_rows,)   float64, or WEIGHTED if weights count: an array to be filled with the decision values of the
                       `n_positive` positive rows, followed by those of the negative rows
    """

    def __init__(self, applied: Applied, sigmoid: Sigmoid | None, scores: Array, n_positive: int) -> None:
        super().__init__(applied, 2, sigmoid)
        self._scores = scores[:n_positive], scores[n_positive:]
        self._filled = [0, 0]

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        weight = self._weights(rows)
        scores = decision if weight is None else weighted(decision, weight)
        for kind in (0, 1):
            found = scores[rows.class_code == kind]
            begin, end = self._filled[kind], self._filled[kind] + len(found)
            self._scores[kind][begin:end] = found
            self._filled[kind] = end

    def auc(self) -> float | None:
        """Return the area under the ROC curve of all rows added; None if all rows belong to one class."""
        return area_under_curve(*self._scores)


class RegressionPass(EvaluationPass):
    """Evaluation of a model that predicts numbers (regression): sums of squared residuals and of targets."""

    def __init__(self, applied: Applied) -> None:
        super().__init__(applied)
        self._residuals = self._sum = self._squares = 0.0
        self._near: float | None = None  # the first target: sums of differences from it lose fewer digits

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        y, weight = rows.target.astype(float), self._weights_or_ones(rows)
        if self._near is None:
            self._near = float(y[0])
        self._residuals += float(weight @ (decision - y) ** 2)
        self._sum += float(weight @ (y - self._near))
        self._squares += float(weight @ (y - self._near) ** 2)

    @property
    def mean_squared_error(self) -> float:
        return self._residuals / self.weight

    @property
    def r_squared(self) -> float | None:
        """R^2 = 1 - (sum of squared residuals) / (sum of squared differences from the mean); None for equal targets."""
        spread = self._squares - self._sum**2 / self.weight
        return 1.0 - self._residuals / spread if spread > 0 else None
