"""Losses of the residual r = <w, x> - y, for any target y: see `trainer.problem.objective.Objective`.

Support vector regression (Ho and Lin, JMLR 2012): alpha is beta there, of both signs. A row whose y is nan is left
out: no loss, no gradient, beta 0. Where rows have weights y is (n, 2), as `weighed` makes it, and C_i is C times the
row's weight.
"""

from dataclasses import dataclass, field

import numpy as np

from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.rows.segment import Segment

NO_WEIGHT = np.empty(0, np.float32)


@dataclass(frozen=True)
class EpsilonInsensitive:
    """max(0, |r| - epsilon);  d(b) = y b - epsilon |b|,  |b| <= C.

    weight  (n_rows,) of the rows, by id, or (0,): each has weight 1
    """

    C: float
    epsilon: float
    weight: Array = field(default_factory=lambda: NO_WEIGHT)

    @property
    def upper(self) -> tuple[float, float]:
        return self.C, self.C

    def projected(self, y: Array, alpha: Array) -> Array:
        target, C = self._parts(y)
        upper = self._upper(C)
        return np.where(np.isnan(target), 0.0, np.clip(alpha, -upper, upper))

    def targets(self, rows: Segment) -> Array:
        if not len(self.weight):
            return rows.y
        # What a row weighs that is left out does not matter, but 0 is not to be divided by.
        return weighed(rows.y, np.where(np.isnan(rows.y), 1.0, self.weight[rows.row_id]))

    def m(self, y: Array, dots: Array) -> Array:
        return dots - self._parts(y)[0]

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha

    def losses(self, y: Array, m: Array) -> float:
        return self._summed(y, self._excess(m))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """At alpha = 0, where -D has a kink, the nearer end of its subdifferential, or 0 if that is inside."""
        target, C = self._parts(y)
        upper, G = self._upper(C), m + self._curvature(C) * alpha
        above, below = G + self.epsilon, G - self.epsilon
        # As for alpha > 0, alpha < 0, and alpha = 0; then what would leave the box.
        PG = np.where(alpha > 0.0, above, np.where(alpha < 0.0, below, np.minimum(above, 0.0) + np.maximum(below, 0.0)))
        PG = np.where(alpha == upper, np.maximum(PG, 0.0), np.where(alpha == -upper, np.minimum(PG, 0.0), PG))
        return np.where(np.isnan(target), 0.0, PG)

    def dual(self, y: Array, alpha: Array) -> float:
        target, C = self._parts(y)
        squares = float(np.sum(self._curvature(C) / 2.0 * alpha * alpha))
        known = np.where(np.isnan(target), 0.0, target)
        return float(np.dot(known, alpha) - self.epsilon * np.sum(np.abs(alpha))) - squares

    def _parts(self, y: Array) -> tuple[Array, Figure]:
        """Targets (n,), and C_i: one for all rows if none has a weight."""
        return (y, self.C) if y.ndim == 1 else (y[:, 0], self.C * y[:, 1])

    def _summed(self, y: Array, losses: Array) -> float:
        _, C = self._parts(y)
        return float(np.sum(C * losses))

    def _excess(self, m: Array) -> Array:
        return np.fmax(0.0, np.abs(m) - self.epsilon)  # 0 of nan

    def _upper(self, C: Figure) -> Figure:
        return C

    def _curvature(self, C: Figure) -> Figure:
        return 0.0


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """max(0, |r| - epsilon)^2;  d(b) = y b - epsilon |b| - b^2 / (4 C)."""

    @property
    def upper(self) -> tuple[float, float]:
        return np.inf, np.inf

    def losses(self, y: Array, m: Array) -> float:
        return self._summed(y, self._excess(m) ** 2)

    def _upper(self, C: Figure) -> Figure:
        return np.inf

    def _curvature(self, C: Figure) -> Figure:
        return 1.0 / (2.0 * C)


def weighed(target: Array, weight: Array) -> Array:
    """y (n, 2) of rows with these targets (n,) and weights (n,)."""
    return np.stack([target, weight], axis=1).astype(float)
