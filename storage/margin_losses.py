"""Losses of the margin m = y <w, x>, for labels y = +1 and -1: see `storage.objective.Objective`."""

from dataclasses import dataclass

import numpy as np

from storage.csr import Array

# Where the logistic loss takes alpha / C for 0 and 1, as trainer/kernels/logistic.py has it.
LEAST_SHARE, MOST_SHARE = 2.0**-100, 1.0 - 2.0**-33


@dataclass(frozen=True)
class _OfMargins:
    """C_i is C_positive for y_i = +1 and C_negative for y_i = -1."""

    C_positive: float
    C_negative: float

    def m(self, y: Array, dots: Array) -> Array:
        return dots * y

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha * y

    @property
    def upper(self) -> tuple[float, float]:
        return self.C_positive, self.C_negative

    def projected(self, y: Array, alpha: Array) -> Array:
        return np.clip(alpha, 0.0, np.where(y > 0, *self.upper))

    def _C(self, y: Array) -> Array:
        return np.where(y > 0, self.C_positive, self.C_negative)


class Hinge(_OfMargins):
    """max(0, 1 - m);  d(a) = a,  0 <= a <= C."""

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.maximum(0.0, 1.0 - m)))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0, alpha == 0.0, alpha == self._C(y))

    def dual(self, y: Array, alpha: Array) -> float:
        return float(alpha.sum())


class SquaredHinge(_OfMargins):
    """max(0, 1 - m)^2;  d(a) = a - a^2 / (4 C),  0 <= a."""

    @property
    def upper(self) -> tuple[float, float]:
        return np.inf, np.inf

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.maximum(0.0, 1.0 - m) ** 2))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0 + alpha / (2.0 * self._C(y)), alpha == 0.0, np.zeros(len(m), bool))

    def dual(self, y: Array, alpha: Array) -> float:
        return float(alpha.sum() - np.sum(alpha * alpha / (4.0 * self._C(y))))


class Logistic(_OfMargins):
    """log(1 + exp(-m));  d(a) = C log C - a log a - (C - a) log(C - a),  0 <= a <= C, the optimum inside."""

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.logaddexp(0.0, -m)))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        share = np.clip(alpha / self._C(y), LEAST_SHARE, MOST_SHARE)
        G = m + np.log(share / (1.0 - share))
        return projected_gradient(G, share == LEAST_SHARE, share == MOST_SHARE)

    def dual(self, y: Array, alpha: Array) -> float:
        C = self._C(y)
        share = alpha / C
        return float(np.dot(C, _entropy(share) + _entropy(1.0 - share)))


def projected_gradient(G: Array, is_lowest: Array, is_highest: Array) -> Array:
    """The gradient, 0 where it points out of the box."""
    return np.where((is_lowest & (G >= 0.0)) | (is_highest & (G <= 0.0)), 0.0, G)


def _entropy(share: Array) -> Array:
    """-s log s, 0 for 0."""
    return -share * np.log(np.where(share > 0.0, share, 1.0))
