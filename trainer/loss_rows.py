"""The rows of a loss that are not shrunk, whatever the loss."""

import numpy as np

from storage.objective import REGRESSION
from trainer.active import ActiveRows
from trainer.kernels.logistic import visit_logistic
from trainer.kernels.regression import visit_regression


class LogisticRows(ActiveRows):
    """Of logistic regression. None is ever shrunk: at the optimum none is at a bound."""

    def _visit(self, number: int, seed: int) -> tuple[float, float]:
        rows, order = self._segments[number], self._orders[number]
        C_positive, _, C_negative, _ = self._bounds
        found = visit_logistic(
            order, seed, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            C_positive, C_negative, self._alpha, self._w,
        )  # fmt: skip
        self._tally.add(len(rows), *found)
        self._note(rows.row_id, np.zeros(len(rows), np.float32))
        return found[0], found[1]


class RegressionRows(ActiveRows):
    """Of support vector regression: shrunk by the larger of the two projected gradients of the round before."""

    def _visit(self, number: int, seed: int) -> tuple[float, float]:
        rows, order, visits = self._segments[number], self._orders[number], self._active[number]
        U, D, _, _ = self._bounds
        beyond = max((one for one in (self._above, -self._below) if one < np.inf), default=np.inf)
        self._active[number], M_plus, M_minus, taken, freed = visit_regression(
            order, visits, seed, beyond, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            U, D, self._epsilon, self._alpha, self._w,
        )  # fmt: skip
        self._tally.add(visits, M_plus, M_minus, taken, freed)
        self._note(rows.row_id[order[:visits]], np.zeros(visits, np.float32))
        return M_plus, M_minus


def rows_of(loss: str) -> type[ActiveRows]:
    """What makes rounds over the rows of a problem with this loss."""
    return LogisticRows if loss == "logistic" else RegressionRows if loss in REGRESSION else ActiveRows
