"""The rows of a loss that are not shrunk, whatever the loss."""

import numpy as np

from storage.csr import Array
from storage.objective import REGRESSION
from storage.segment import Segment
from trainer.active import ActiveRows, Found
from trainer.kernels.logistic import visit_logistic
from trainer.kernels.regression import visit_regression


class LogisticRows(ActiveRows):
    """Of logistic regression. None is ever shrunk: at the optimum none is at a bound."""

    def _visit(self, rows: Segment, order: Array, seed: int) -> tuple[Array, Found]:
        C_positive, _, C_negative, _ = self._bounds
        found = visit_logistic(
            order, seed, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            C_positive, C_negative, self._alpha, self._w,
        )  # fmt: skip
        return np.zeros(len(rows), np.float32), (len(rows), *found)


class RegressionRows(ActiveRows):
    """Of support vector regression: shrunk by the larger of the two projected gradients of the round before."""

    def _visit(self, rows: Segment, order: Array, seed: int) -> tuple[Array, Found]:
        U, D, _, _ = self._bounds
        beyond = max((one for one in (self._above, -self._below) if one < np.inf), default=np.inf)
        return np.zeros(len(rows), np.float32), visit_regression(
            order, len(rows), seed, beyond, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            U, D, self._epsilon, self._alpha, self._w,
        )  # fmt: skip


def rows_of(loss: str) -> type[ActiveRows]:
    """What makes rounds over the rows of a problem with this loss."""
    return LogisticRows if loss == "logistic" else RegressionRows if loss in REGRESSION else ActiveRows
