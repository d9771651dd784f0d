"""Metrics of predictions, one set for evaluations and for rows held out: each adds rows some at a time.

With two classes log loss, Brier score and the reliability table use the probability of the first class; scikit-learn
uses that of the positive class. With more classes the Brier score sums over the classes (Brier 1950), and the table
uses the probability of the predicted class (Guo et al., "On calibration of modern neural networks", ICML 2017).

A point of the ROC and precision-recall curves is a threshold t with the rows, or their weights, whose score is at least
t: tp of the positive rows, fp of the negative ones. The ROC curve is tp / P over fp / N (Fawcett 2006), the other one
precision tp / (tp + fp) over recall tp / P, where P and N are all positive and all negative rows.
"""

from collections.abc import Callable, Iterator
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


_SCORES_AT_ONCE = 1 << 20
WEIGHTED = np.dtype(complex)
MOST_POINTS = 1000
_EACH = MOST_POINTS // 4 - 1  # points of each of the four choices among too many


def weighted(scores: Array, weight: Array) -> Array:
    """Pack scores (n,) and weights (n,) into one complex array (n,), so that sorting keeps each pair together."""
    return scores + 1j * weight


class Ranking:
    """The rows of two classes, ranked by their scores.

    positive, negative  scores (n,) and (m,) of the two classes, or WEIGHTED pairs: a row counts as much as it weighs.
                        They are changed in place, also in mapped files: negated and sorted, weights summed up
    """

    def __init__(self, positive: Array, negative: Array) -> None:
        for column in (positive, negative):
            # The highest score comes first: sums from there on keep their digits where they are small.
            np.negative(column.real, out=column.real)
            # numpy sorts complex numbers by their real parts, and equal real parts by the imaginary parts.
            column.sort()
            if column.dtype == WEIGHTED:
                # Running sums ascend, so that the complex numbers stay sorted.
                np.cumsum(column.imag, out=column.imag)
        self._positive, self._negative = positive, negative
        self._P, self._N = _total(positive), _total(negative)

    def figures(self) -> dict[str, float | None]:
        """Return auc and average_precision; None if a class has no rows, or no weight.

        auc                the share of all pairs of a positive and a negative row in which the positive row scores
                           higher; ties count half (Fawcett 2006, section 7: the Wilcoxon statistic)
        average_precision  the mean over the positive rows of the precision at their scores
        """
        if not self._P or not self._N:
            return {"auc": None, "average_precision": None}
        twice, precision = 0, 0.0
        for own, scores in self._positive_rows():
            tp, fp = _up_to(self._positive, scores), _up_to(self._negative, scores)
            twice += (own * (fp + _up_to(self._negative, scores, "left"))).sum().item()
            precision += float(own @ _shares(tp, tp + fp, 0.0))
        return {
            "auc": (2 * self._P * self._N - twice) / (2 * self._P * self._N),
            "average_precision": precision / self._P,
        }

    def _positive_rows(self) -> Iterator[tuple[Array, Array]]:
        """Yield weights and negated scores of the positive rows, some at a time."""
        for begin in range(0, len(self._positive), _SCORES_AT_ONCE):
            rows = self._positive[begin : begin + _SCORES_AT_ONCE]
            if rows.dtype == WEIGHTED:
                own = np.diff(rows.imag, prepend=self._positive[begin - 1].imag if begin else 0.0)
            else:
                own = np.ones(len(rows), np.int64)
            yield own, np.ascontiguousarray(rows.real)

    def curves(self) -> dict[str, list[Any]] | None:
        """Return the points of both curves, from the highest threshold to the lowest; None if a class has no weight.

        Of more than MOST_POINTS different scores so many stay at most, end points and corners of the ROC curve's
        convex hull among them; the values at each are exact.

        threshold            lowest score that is taken for positive; None at the first point, where no row is
        true_positive_rate   recall, tp / P
        false_positive_rate  fp / N
        precision            tp / (tp + fp), 1 where no row is taken for positive
        """
        if not self._P or not self._N:
            return None
        scores = self._chosen()
        tp, fp = _up_to(self._positive, scores), _up_to(self._negative, scores)
        return {
            "threshold": [None, *(-scores).tolist()],
            "true_positive_rate": [0.0, *(tp / self._P).tolist()],
            "false_positive_rate": [0.0, *(fp / self._N).tolist()],
            "precision": [1.0, *_shares(tp, tp + fp, 1.0).tolist()],
        }

    def at_corner(self, worth: Callable[[Array, Array, float], Array]) -> float | None:
        """Return the threshold of the largest worth(tp, fp, P), halfway to the next lower score; None as `curves`.

        worth  a function of whose values the largest is at a corner of the ROC curve's convex hull, or at its end
        """
        if not self._P or not self._N:
            return None
        scores = np.array([-np.inf, *self._corners(), np.inf])
        found = worth(_up_to(self._positive, scores), _up_to(self._negative, scores), self._P)
        return self._below(float(scores[np.argmax(found)]))

    def at_precision(self, precision: float) -> float | None:
        """Return the threshold of the largest recall at a precision, or a higher one; None if there is none."""
        found = None
        for own, scores in self._positive_rows():
            tp = _up_to(self._positive, scores)
            good = scores[(own > 0) & (_shares(tp, tp + _up_to(self._negative, scores), 0.0) >= precision)]
            found = self._below(float(good[-1])) if len(good) else found
        return found

    def _below(self, score: float) -> float:
        """Return a threshold just after a negated score: halfway to the next one, or 1 away at either end."""
        highest = min(column[0].real for column in (self._positive, self._negative) if len(column))
        lowest = max(column[-1].real for column in (self._positive, self._negative) if len(column))
        if score < highest:
            return float(1.0 - highest)
        if score >= lowest:
            return float(-lowest - 1.0)
        places = [(column, _end(column, score)) for column in (self._positive, self._negative)]
        after = min(column[place].real for column, place in places if place < len(column))
        return float(-(score + after) / 2.0)

    def _chosen(self) -> Array:
        """Return the negated thresholds of the points to show but the first, ascending."""
        columns, most = (self._positive, self._negative), MOST_POINTS - 1
        scores = np.unique(np.concatenate([_distinct(column, most) for column in columns]))
        if len(scores) <= most:
            return scores
        # Evenly over recall, over false positives, and more of the first rows, where precision changes most.
        places = (_evenly(self._positive), _evenly(self._negative))
        first = np.unique(np.geomspace(1, len(self._positive), _EACH).astype(np.int64)) - 1
        chosen = [columns[kind][place].real for kind, place in enumerate(places)]
        corners = self._corners()
        ends = [max(column[-1].real for column in columns)]
        return np.unique(np.concatenate([*chosen, self._positive[first].real, corners[_evenly(corners)], ends]))

    def _corners(self) -> Array:
        """Return the negated scores at the corners of the ROC curve's convex hull, ascending: scores of positives."""
        corners = np.empty(0)
        for _, scores in self._positive_rows():
            corners = np.unique(np.concatenate([corners, scores]))
            n_before = -1
            # A point below the line through its neighbours is no corner, whichever of these are.
            while n_before != len(corners):
                n_before = len(corners)
                x = np.array([0.0, *_up_to(self._negative, corners), self._N])
                y = np.array([0.0, *_up_to(self._positive, corners), self._P])
                dx, dy = np.diff(x), np.diff(y)
                corners = corners[dx[:-1] * dy[1:] < dx[1:] * dy[:-1]]
        return corners


def _total(column: Array) -> float:
    """Return the number of rows, or the sum of their weights."""
    if column.dtype != WEIGHTED:
        return len(column)
    return float(column[-1].imag) if len(column) else 0.0


def _up_to(column: Array, scores: Array, side: str = "right") -> Array:
    """Return how many rows, or what weight of them, come up to each score (n,), `right`, or before it, `left`."""
    if column.dtype != WEIGHTED:
        return np.searchsorted(column, scores, side)  # type: ignore[call-overload]
    # A search in the real parts alone would copy them.
    bounds = scores.astype(WEIGHTED)
    bounds.imag = np.inf if side == "right" else -np.inf
    n_rows = np.searchsorted(column, bounds)
    return np.where(n_rows > 0, column.imag[n_rows - 1], 0.0) if len(column) else np.zeros(len(scores))


def _shares(part: Array, whole: Array, of_nothing: float) -> Array:
    return np.divide(part, whole, out=np.full(len(part), of_nothing), where=whole > 0)


def _evenly(column: Array) -> Array:
    """Return places of _EACH entries at most, the first and the last among them."""
    return np.unique(np.linspace(0, len(column) - 1, _EACH).astype(np.int64)) if len(column) else np.empty(0, np.int64)


def _distinct(column: Array, most: int) -> Array:
    """Return the first different scores of a sorted column, one more than `most` of them at most."""
    found, at = list[float](), 0
    while at < len(column) and len(found) <= most:
        found.append(float(column[at].real))
        at = _end(column, found[-1])
    return np.array(found)


def _end(column: Array, score: float) -> int:
    """Return the number of rows of a sorted column up to a score."""
    bound = score if column.dtype != WEIGHTED else complex(score, np.inf)
    return int(np.searchsorted(column, bound, "right"))
