"""The evaluation pass: once over all blocks at a fixed w, for what a model is worth on them."""

from dataclasses import dataclass

import numpy as np

from reader.auc import area_under_curve
from reader.objective import Objective
from storage.csr import Array, row_dots
from storage.segment import Segment


@dataclass(frozen=True)
class Evaluation:
    """Rows by what they are and what they were predicted to be, with the first label for positive.

    auc               area under the ROC curve, None if all rows are of one class
    losses            sum of C_i loss_i, None without an objective
    unknown_features  stored values whose feature has no weight
    """

    true_positive: int
    false_negative: int
    false_positive: int
    true_negative: int
    auc: float | None
    losses: float | None
    unknown_features: int


class EvaluationPass:
    """`look` at every row and `add` it once, in any order, then take the `result`.

    w (width,)         weights, numbered as the rows' features
    intercept          is added to every <w, x_i>
    unknown (width,)   bool, features without a weight; None: there are none
    scores (n_rows,)   float64, room for the decision values of `n_positive` positive rows and then all others
    """

    def __init__(
        self,
        w: Array,
        intercept: float,
        unknown: Array | None,
        objective: Objective | None,
        scores: Array,
        n_positive: int,
    ) -> None:
        self._w = w
        self._intercept = intercept
        self._unknown = unknown
        self._objective = objective
        self._positive, self._negative = scores[:n_positive], scores[n_positive:]
        self._filled = [0, 0]
        self._confusion = np.zeros((2, 2), np.int64)  # by being negative, by being predicted negative
        self._losses = 0.0
        self._unknown_features = 0

    def look(self, rows: Segment) -> Array:
        """Decision values (n,) of the rows; on any thread."""
        decision = np.empty(len(rows))
        row_dots(rows.indptr, rows.indices, rows.values, self._w, decision)
        return decision + self._intercept

    def add(self, rows: Segment, decision: Array) -> None:
        """Take these rows in, with what `look` found."""
        for kind, (scores, own) in enumerate(((self._positive, rows.y > 0), (self._negative, rows.y < 0))):
            found = decision[own]
            begin, self._filled[kind] = self._filled[kind], self._filled[kind] + len(found)
            scores[begin : self._filled[kind]] = found
            right = int(np.count_nonzero(found > 0))
            self._confusion[kind] += (right, len(found) - right)
        if self._objective is not None:
            self._losses += self._objective.losses(rows.y, self._objective.m(rows.y, decision))
        if self._unknown is not None:
            self._unknown_features += int(np.count_nonzero(self._unknown[rows.indices]))

    def result(self) -> Evaluation:
        """The evaluation of all rows added."""
        (true_positive, false_negative), (false_positive, true_negative) = self._confusion.tolist()
        return Evaluation(
            true_positive,
            false_negative,
            false_positive,
            true_negative,
            auc=area_under_curve(self._positive, self._negative),
            losses=None if self._objective is None else self._losses,
            unknown_features=self._unknown_features,
        )
