"""The objective at a fixed w, summed over streamed rows (the loss table of the design, hinge and squared hinge).

Primal  P(w)     = 1/2 |w|^2 + sum_i C_i loss(m_i),  m_i = y_i <w, x_i>
loss(m) = max(0, 1 - m) (hinge) or max(0, 1 - m)^2 (squared hinge)
"""

from dataclasses import dataclass

import numpy as np

from storage.csr import Array, row_dots
from storage.segment import Segment


def margins(examples: Segment, w: Array) -> Array:
    """m_i = y_i <w, x_i>, (n_rows,)."""
    dots = np.empty(len(examples))
    row_dots(examples.indptr, examples.indices, examples.values, w, dots)
    return dots * examples.y


@dataclass(frozen=True)
class Objective:
    """C_i is C_positive for y_i = +1 and C_negative for y_i = -1."""

    loss: str
    C_positive: float
    C_negative: float

    def losses(self, y: Array, m: Array) -> float:
        """Sum of C_i loss(m_i)."""
        slack = np.maximum(0.0, 1.0 - m)
        return float(np.dot(self._C(y), slack if self.loss == "hinge" else slack * slack))

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """PG_i of the dual (minimised), (n_rows,)."""
        if self.loss == "hinge":
            upper, G = self._C(y), m - 1.0
        else:
            upper, G = np.full(len(m), np.inf), m - 1.0 + alpha / (2.0 * self._C(y))
        at_rest = ((alpha == 0.0) & (G >= 0.0)) | ((alpha == upper) & (G <= 0.0))
        return np.where(at_rest, 0.0, G)

    @property
    def upper(self) -> tuple[float, float]:
        """Upper bounds on alpha_i for y_i = +1 and -1."""
        return (self.C_positive, self.C_negative) if self.loss == "hinge" else (np.inf, np.inf)

    def dual_curvature(self, y: Array, alpha: Array) -> float:
        """What the squared hinge takes from the dual: sum_i alpha_i^2 / (4 C_i); 0 for the hinge."""
        return 0.0 if self.loss == "hinge" else float(np.sum(alpha * alpha / (4.0 * self._C(y))))

    def _C(self, y: Array) -> Array:
        return np.where(y > 0, self.C_positive, self.C_negative)
