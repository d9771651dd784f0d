"""The evaluation pass: once over all blocks at a fixed w, for what a model is worth on them."""

from dataclasses import dataclass

import numpy as np

from reader.auc import area_under_curve
from storage.csr import Array, row_dots
from storage.objective import Objective
from storage.segment import Segment


@dataclass(frozen=True)
class Applied:
    """What is evaluated.

    w (width,)         weights, numbered as the rows' features
    intercept          is added to every <w, x_i>
    unknown (width,)   bool, features without a weight; None: there are none
    objective          whose losses are summed; None: nothing is
    """

    w: Array
    intercept: float
    unknown: Array | None
    objective: Objective | None


class EvaluationPass:
    """`look` at every row and `add` it once, in any order.

    losses            sum of C_i loss_i
    unknown_features  stored values whose feature has no weight
    """

    def __init__(self, applied: Applied) -> None:
        self._applied = applied
        self.losses = 0.0
        self.unknown_features = 0

    def look(self, rows: Segment) -> Array:
        """Decision values (n,) of the rows; on any thread."""
        decision = np.empty(len(rows))
        row_dots(rows.indptr, rows.indices, rows.values, self._applied.w, decision)
        return decision + self._applied.intercept

    def add(self, rows: Segment, decision: Array) -> None:
        """Take these rows in, with what `look` found."""
        objective, unknown = self._applied.objective, self._applied.unknown
        if objective is not None:
            self.losses += objective.losses(rows.y, objective.m(rows.y, decision))
        if unknown is not None:
            self.unknown_features += int(np.count_nonzero(unknown[rows.indices]))


class ClassificationPass(EvaluationPass):
    """Of two classes.

    scores (n_rows,)   float64, room for the decision values of `n_positive` positive rows and then all others
    confusion          rows that are positive, then negative; predicted to be positive, then negative
    """

    def __init__(self, applied: Applied, scores: Array, n_positive: int) -> None:
        super().__init__(applied)
        self._scores = scores[:n_positive], scores[n_positive:]
        self._filled = [0, 0]
        self.confusion = [[0, 0], [0, 0]]

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        for kind, own in enumerate((rows.y > 0, rows.y < 0)):
            found = decision[own]
            begin, end = self._filled[kind], self._filled[kind] + len(found)
            self._scores[kind][begin:end] = found
            self._filled[kind] = end
            positive = int(np.count_nonzero(found > 0))
            self.confusion[kind][0] += positive
            self.confusion[kind][1] += len(found) - positive

    @property
    def accuracy(self) -> float:
        """Share of the rows that are predicted as what they are."""
        return (self.confusion[0][0] + self.confusion[1][1]) / sum(map(sum, self.confusion))

    def auc(self) -> float | None:
        """Area under the ROC curve of all rows added; None if they are of one class."""
        return area_under_curve(*self._scores)


class RegressionPass(EvaluationPass):
    """Of numbers."""

    def __init__(self, applied: Applied) -> None:
        super().__init__(applied)
        self._rows = 0
        self._residuals = self._sum = self._squares = 0.0
        self._near: float | None = None  # a target: sums of differences from it lose fewer digits

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        y = rows.y.astype(float)
        if self._near is None:
            self._near = float(y[0])
        self._rows += len(y)
        self._residuals += float(np.sum((decision - y) ** 2))
        self._sum += float(np.sum(y - self._near))
        self._squares += float(np.sum((y - self._near) ** 2))

    @property
    def mean_squared_error(self) -> float:
        return self._residuals / self._rows

    @property
    def r_squared(self) -> float | None:
        """1 - (sum of squared residuals) / (sum of squared differences from the mean); None if all targets are one."""
        spread = self._squares - self._sum**2 / self._rows
        return 1.0 - self._residuals / spread if spread > 0 else None
