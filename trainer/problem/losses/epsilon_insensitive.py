"""Losses of the residual r = <w, x> - y for any target y. Their step is in kernels.logistic_and_regression.

Support vector regression (Ho and Lin, JMLR 2012). The paper calls alpha beta; it may have either sign.
"""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.losses.terms import RowTerms, products, proximal_curvature, without_zeros


@dataclass(frozen=True)
class EpsilonInsensitive:
    """The loss max(0, |r| - epsilon), with the dual term d(b) = y b - epsilon |b| of the dual variable b, |b| <= C."""

    epsilon: float

    is_smooth, has_centre = False, True
    is_quadratic = has_curvature = has_probabilities = has_joint = False
    is_regression = has_rest = True

    def m(self, rows: RowTerms, dots: Array) -> Array:
        return dots - rows.target

    def coefficients(self, rows: RowTerms, alpha: Array) -> Array:
        return alpha

    def projected(self, rows: RowTerms, alpha: Array) -> Array:
        upper = self._upper(rows.C)
        return np.clip(alpha, -upper, upper)

    def losses(self, rows: RowTerms, m: Array) -> Array:
        return np.sum(rows.C * self._excess(m), axis=0)

    def projected_gradient(self, rows: RowTerms, m: Array, alpha: Array) -> Array:
        """Return the projected gradient. At alpha = 0, where -D has a kink, it is the subgradient nearest to 0."""
        upper, G = self._upper(rows.C), m + self._curvature(rows.C) * alpha
        above, below = G + self.epsilon, G - self.epsilon
        # For alpha > 0, alpha < 0, and alpha = 0; then without what would leave the box.
        PG = np.where(alpha > 0.0, above, np.where(alpha < 0.0, below, np.minimum(above, 0.0) + np.maximum(below, 0.0)))
        PG = np.where(alpha == upper, np.maximum(PG, 0.0), np.where(alpha == -upper, np.minimum(PG, 0.0), PG))
        return np.where(rows.C == 0.0, 0.0, PG)

    def dual(self, rows: RowTerms, alpha: Array) -> Array:
        squares = np.sum(self._curvature(rows.C) / 2.0 * alpha * alpha, axis=0)
        return products(rows.target, alpha) - self.epsilon * np.sum(np.abs(alpha), axis=0) - squares

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        reach = sigma * rows.C
        free = _towards_zero(centre - reach * m, reach * self.epsilon)
        return np.clip(free, -rows.C, rows.C), np.where((free != 0.0) & (np.abs(free) < rows.C), reach, 0.0)

    def _excess(self, m: Array) -> Array:
        return np.maximum(0.0, np.abs(m) - self.epsilon)

    def _upper(self, C: Array) -> Array:
        return C

    def _curvature(self, C: Array) -> Array:
        return np.zeros_like(C)


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """The loss max(0, |r| - epsilon)^2, with the dual term d(b) = y b - epsilon |b| - b^2 / (4 C), b not bounded."""

    is_smooth, has_centre, has_curvature = True, True, True

    def losses(self, rows: RowTerms, m: Array) -> Array:
        return np.sum(rows.C * self._excess(m) ** 2, axis=0)

    def _upper(self, C: Array) -> Array:
        return np.where(C == 0.0, 0.0, np.inf)

    def _curvature(self, C: Array) -> Array:
        return 1.0 / (2.0 * without_zeros(C))

    def proximal(self, rows: RowTerms, centre: Array, sigma: float, m: Array) -> tuple[Array, Array]:
        pull = centre / (sigma * without_zeros(rows.C))
        gain, h = _towards_zero(pull - m, self.epsilon), proximal_curvature(rows.C, sigma)
        return h * gain, np.where(gain != 0.0, h, 0.0)


def _towards_zero(values: Array, by: Array | float) -> Array:
    """Return each value moved towards 0 by `by`, but 0 where its distance from 0 is not larger than `by`."""
    return np.sign(values) * np.maximum(0.0, np.abs(values) - by)
