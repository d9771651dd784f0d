"""Evaluates a model in one pass over all rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamsvm.reader.certificate.metrics import Calibration, ClassCounts, NumberErrors, Ranking, weighted
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.probability import Sigmoid, probabilities
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment

MOST_DOUBTFUL = 10


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


class Doubtful:
    """The rows whose labels a model contradicts most: it is surest of another class. Their labels may be wrong.

    rows  (lead, row id, class, predicted class) of at most MOST_DOUBTFUL rows; the lead is that of the decision value
          of the predicted class, with two classes its magnitude. The largest lead comes first
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, int, int, int]] = []

    def add(self, row_id: Array, y: Array, predicted: Array, decision: Array) -> None:
        """Add rows with their classes, predicted classes (n,) and decision values (n,) or (n, n_classes)."""
        wrong = np.flatnonzero(y != predicted)
        if decision.ndim == 1:
            lead = np.abs(decision[wrong])
        else:
            lead = decision[wrong, predicted[wrong]] - decision[wrong, y[wrong]]
        most = np.argsort(-lead, kind="stable")[:MOST_DOUBTFUL]
        columns = lead[most], row_id[wrong[most]], y[wrong[most]], predicted[wrong[most]]
        found = [*self.rows, *zip(*(column.tolist() for column in columns), strict=True)]
        self.rows = sorted(found, key=lambda row: (-row[0], row[1]))[:MOST_DOUBTFUL]


class ClassificationPass(EvaluationPass):
    """Evaluation of a model with `n_classes` classes. A row's class code is the index of its label in model.labels.

    counts        counts of rows by true and predicted class
    doubtful      the rows whose labels the model contradicts most
    calibration   measures the probabilities that the `sigmoid` computes; None without a sigmoid
    """

    def __init__(self, applied: Applied, n_classes: int, sigmoid: Sigmoid | None) -> None:
        super().__init__(applied)
        self._sigmoid = sigmoid
        self.counts, self.doubtful = ClassCounts(n_classes, applied.is_weighted), Doubtful()
        self.calibration = None if sigmoid is None else Calibration(applied.is_weighted)

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        y, predicted, weight = rows.class_code.astype(np.int64), predicted_classes(decision), self._weights(rows)
        self.counts.add(y, predicted, weight)
        self.doubtful.add(rows.row_id, y, predicted, decision)
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

    def ranking(self) -> Ranking:
        """Rank all rows added, once, by their decision values."""
        return Ranking(*self._scores)


class RegressionPass(EvaluationPass):
    """Evaluation of a model that predicts numbers (regression); `errors` measures its predictions."""

    def __init__(self, applied: Applied) -> None:
        super().__init__(applied)
        self.errors = NumberErrors()

    def add(self, rows: Segment, decision: Array) -> None:
        super().add(rows, decision)
        self.errors.add(rows.target.astype(float), decision, self._weights_or_ones(rows))
