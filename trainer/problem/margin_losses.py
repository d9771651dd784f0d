"""Losses of the margin m = s <w, x>, see `objective.Objective`. y is the sign s times the weight of the row."""

from dataclasses import dataclass

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment

# Where the logistic loss takes alpha / C for 0 and 1, as trainer/kernels/logistic.py has it.
LEAST_SHARE, MOST_SHARE = 2.0**-100, 1.0 - 2.0**-33


@dataclass(frozen=True)
class OfMargins:
    """C_i is C_positive |y_i| for y_i > 0, else C_negative |y_i|: 0 for a row that its weight leaves out."""

    C_positive: float
    C_negative: float

    def targets(self, rows: Segment) -> Array:
        return rows.y

    def m(self, y: Array, dots: Array) -> Array:
        return dots * np.sign(y)

    def coefficients(self, y: Array, alpha: Array) -> Array:
        return alpha * np.sign(y)

    @property
    def upper(self) -> tuple[float, float]:
        return self.C_positive, self.C_negative

    def losses(self, y: Array, m: Array) -> float:
        raise NotImplementedError

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        raise NotImplementedError

    def dual(self, y: Array, alpha: Array) -> float:
        raise NotImplementedError

    def projected(self, y: Array, alpha: Array) -> Array:
        return np.clip(alpha, 0.0, np.where(y == 0, 0.0, self._upper(y)))

    def _upper(self, y: Array) -> Array:
        return self._C(y)

    def _C(self, y: Array) -> Array:
        return np.where(y > 0, self.C_positive, self.C_negative) * np.abs(y).astype(float)


class Hinge(OfMargins):
    """max(0, 1 - m);  d(a) = a,  0 <= a <= C."""

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.maximum(0.0, 1.0 - m)))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0, alpha == 0.0, alpha == self._C(y))

    def dual(self, y: Array, alpha: Array) -> float:
        return float(alpha.sum())


class SquaredHinge(OfMargins):
    """max(0, 1 - m)^2;  d(a) = a - a^2 / (4 C),  0 <= a."""

    @property
    def upper(self) -> tuple[float, float]:
        return np.inf, np.inf

    def _upper(self, y: Array) -> Array:
        return np.full(len(y), np.inf)

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.maximum(0.0, 1.0 - m) ** 2))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        return projected_gradient(m - 1.0 + alpha / self._twice_C(y), alpha == 0.0, y == 0)

    def dual(self, y: Array, alpha: Array) -> float:
        return float(alpha.sum() - np.sum(alpha * alpha / (2.0 * self._twice_C(y))))

    def _twice_C(self, y: Array) -> Array:
        """A row that is left out has alpha 0: what that is divided by does not matter."""
        return np.where(y == 0, 1.0, 2.0 * self._C(y))


class Logistic(OfMargins):
    """log(1 + exp(-m));  d(a) = C log C - a log a - (C - a) log(C - a),  0 <= a <= C, the optimum inside."""

    def losses(self, y: Array, m: Array) -> float:
        return float(np.dot(self._C(y), np.logaddexp(0.0, -m)))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        share = np.clip(self._share(y, alpha), LEAST_SHARE, MOST_SHARE)
        G = m + np.log(share / (1.0 - share))
        return np.where(y == 0, 0.0, projected_gradient(G, share == LEAST_SHARE, share == MOST_SHARE))

    def dual(self, y: Array, alpha: Array) -> float:
        share = self._share(y, alpha)
        return float(np.dot(self._C(y), _entropy(share) + _entropy(1.0 - share)))

    def _share(self, y: Array, alpha: Array) -> Array:
        return alpha / np.where(y == 0, 1.0, self._C(y))


def projected_gradient(G: Array, is_lowest: Array, is_highest: Array) -> Array:
    """The gradient, 0 where it points out of the box."""
    return np.where((is_lowest & (G >= 0.0)) | (is_highest & (G <= 0.0)), 0.0, G)


def _entropy(share: Array) -> Array:
    """-s log s, 0 for 0."""
    return -share * np.log(np.where(share > 0.0, share, 1.0))
