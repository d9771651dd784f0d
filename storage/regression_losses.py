"""Losses of the residual r = <w, x> - y, for any target y: see `storage.objective.Objective`.

Support vector regression (Ho and Lin, JMLR 2012): alpha is beta there, of both signs. A row whose y is nan is left
out: no loss, no gradient, beta 0.
"""

from dataclasses import dataclass

import numpy as np

from storage.csr import Array
from storage.segment import Segment


@dataclass(frozen=True)
class EpsilonInsensitive:
    """max(0, |r| - epsilon);  d(b) = y b - epsilon |b|,  |b| <= C."""

    C: float
    epsilon: float

    @property
    def upper(self) -> tuple[float, float]:
        return self.C, self.C

    def projected(self, y: Array, alpha: Array) -> Array:
        upper, _ = self.upper
        return np.where(np.isnan(y), 0.0, np.clip(alpha, -upper, upper))

    def targets(self, rows: Segment) -> Array:
        return rows.y

    def m(self, y: Array, dots: Array) -> Array:
        return dots - y

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha

    def losses(self, y: Array, m: Array) -> float:
        return float(self.C * np.sum(self._excess(m)))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """At alpha = 0, where -D has a kink, the nearer end of its subdifferential, or 0 if that is inside."""
        upper, _ = self.upper
        G = m + self._curvature * alpha
        above, below = G + self.epsilon, G - self.epsilon
        # As for alpha > 0, alpha < 0, and alpha = 0; then what would leave the box.
        PG = np.where(alpha > 0.0, above, np.where(alpha < 0.0, below, np.minimum(above, 0.0) + np.maximum(below, 0.0)))
        PG = np.where(alpha == upper, np.maximum(PG, 0.0), np.where(alpha == -upper, np.minimum(PG, 0.0), PG))
        return np.where(np.isnan(y), 0.0, PG)

    def dual(self, y: Array, alpha: Array) -> float:
        squares = self._curvature / 2.0 * float(np.sum(alpha * alpha))
        return float(np.dot(np.where(np.isnan(y), 0.0, y), alpha) - self.epsilon * np.sum(np.abs(alpha))) - squares

    def _excess(self, m: Array) -> Array:
        return np.fmax(0.0, np.abs(m) - self.epsilon)  # 0 of nan

    @property
    def _curvature(self) -> float:
        return 0.0


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """max(0, |r| - epsilon)^2;  d(b) = y b - epsilon |b| - b^2 / (4 C)."""

    @property
    def upper(self) -> tuple[float, float]:
        return np.inf, np.inf

    def losses(self, y: Array, m: Array) -> float:
        return float(self.C * np.sum(self._excess(m) ** 2))

    @property
    def _curvature(self) -> float:
        return 1.0 / (2.0 * self.C)
