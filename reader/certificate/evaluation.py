"""The evaluation pass: reads all rows once and measures how well a model predicts them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamsvm.reader.certificate.auc import area_under_curve, weighted
from streamsvm.reader.certificate.calibration import Calibration
from streamsvm.reader.certificate.class_counts import ClassCounts
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.probability import Sigmoid, probabilities
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment


@dataclass(frozen=True)
class Applied:
    """A model as it is evaluated on a dataset.

    values             decision values (n,) or (n, n_classes) of rows, whose features have the dataset's numbers; may be
                       called on any thread
    unknown (width,)   bool, features that the model does not know; None: there are none
    losses             sum of C_i loss_i of rows with these decision values; None: nothing is summed
    is_weighted        rows count as much as they weigh
    """

    values: Callable[[Segment], Array]
    unknown: Array | None
    losses: Callable[[Segment, Array], float] | None
    is_weighted: bool = False


class EvaluationPass:
    """`look` at every row and `add` it once, in any order.

    losses            sum of C_i loss_i
    weight            sum of the rows' weights: each has 1 where they do not count
    unknown_features  stored values whose feature the model does not know
    """

    def __init__(self, applied: Applied) -> None:
        self._applied = applied
        self.losses = self.weight = 0.0
        self.unknown_features = 0

    def look(self, rows: Segment) -> Array:
        """Decision values of the rows, (n,) or (n, n_classes); on any thread."""
        return self._applied.values(rows)

    def add(self, rows: Segment, decision: Array) -> None:
        """Take these rows in, with the decision values that `look` returned."""
        losses, unknown = self._applied.losses, self._applied.unknown
        if losses is not None:
            self.losses += losses(rows, decision)
        self.weight += float(self._weights_or_ones(rows).sum())
        if unknown is not None:
            self.unknown_features += int(np.count_nonzero(unknown[rows.indices]))

    def _weights(self, rows: Segment) -> Array | None:
        """The rows' weights (n,) if they count, else None."""
        return self._weights_or_ones(rows) if self._applied.is_weighted else None

    def _weights_or_ones(self, rows: Segment) -> Array:
        # Rows that were added without weights have none.
        return rows.weight if len(rows.weight) else np.ones(len(rows))


class ClassificationPass(EvaluationPass):
    """Evaluation of a model with `n_classes` classes; class codes of rows are places in its labels.

    counts        rows by true and predicted class
    calibration   measures the probabilities that the `sigmoid` gives; None without a sigmoid
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
    """Evaluation of a model of two classes, the first of which is the positive one.

    scores (n_rows,)   float64, or WEIGHTED if weights count: room for the decision values of `n_positive` positive
                       rows and then all others
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
        """Area under the ROC curve of all rows added; None if they are of one class."""
        return area_under_curve(*self._scores)


class RegressionPass(EvaluationPass):
    """Evaluation of a model that predicts numbers."""

    def __init__(self, applied: Applied) -> None:
        super().__init__(applied)
        self._residuals = self._sum = self._squares = 0.0
        self._near: float | None = None  # a target: sums of differences from it lose fewer digits

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
        """1 - (sum of squared residuals) / (sum of squared differences from the mean); None if all targets are one."""
        spread = self._squares - self._sum**2 / self.weight
        return 1.0 - self._residuals / spread if spread > 0 else None
