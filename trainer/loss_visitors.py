"""Who visits the rows of a problem, by its loss."""

import numpy as np

from storage.csr import Array
from storage.objective import REGRESSION
from storage.segment import Segment
from trainer.kernels.logistic import visit_logistic
from trainer.kernels.regression import Tube, visit_regression
from trainer.visitor import Visitor, Visits


class LogisticVisitor(Visitor):
    """Of logistic regression. No row ever rests: at the optimum none is at a bound."""

    def visit(self, rows: Segment, order: Array, is_alone: bool = True) -> Visits:
        C_positive, _, C_negative, _ = self._problem.box
        found = visit_logistic(order, rows.columns, C_positive, C_negative, self._alpha, self._w)
        return Visits(_zeros(order), _zeros(order), _zeros(order) - 1, *found)


class RegressionVisitor(Visitor):
    """Of support vector regression."""

    def visit(self, rows: Segment, order: Array, is_alone: bool = True) -> Visits:
        U, D, _, _ = self._problem.box
        rest = _zeros(order)
        found = visit_regression(order, rows.columns, Tube(U, D, self._problem.epsilon), self._alpha, self._w, rest)
        return Visits(_zeros(order), _zeros(order), rest, *found)

    def rests_beyond(self, row_id: Array, visits: Visits, above: float, below: float) -> Array:
        """By more than the larger of the two (Ho, Lin 2012, section 3.2)."""
        return visits.rest > max((one for one in (above, -below) if one < np.inf), default=np.inf)


def visitor_of(loss: str) -> type[Visitor]:
    """Who visits the rows of a problem with this loss."""
    return LogisticVisitor if loss == "logistic" else RegressionVisitor if loss in REGRESSION else Visitor


def _zeros(order: Array) -> Array:
    return np.zeros(len(order), np.float32)
