"""The optimisation problem, checked once.

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i <w, x_i>)

and its dual, which the solvers minimise,

    min_alpha  1/2 |sum_i alpha_i y_i x_i|^2 + sum_i D_i alpha_i^2 / 2 - sum_i alpha_i,  0 <= alpha_i <= U_i.

A loss is the pair (U, D): hinge (C, 0), squared hinge (inf, 1 / (2 C)) (Hsieh et al. 2008, equation 4).
"""

import math
from dataclasses import dataclass

import numpy as np

from storage.csr import Array, row_dots
from storage.segment import Segment

LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True)
class Problem:
    """`C_positive` and `C_negative` are C_i of the rows with y = +1 and y = -1."""

    loss: str
    C_positive: float
    C_negative: float

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {self.loss!r}, known are {', '.join(LOSSES)}")
        for C in (self.C_positive, self.C_negative):
            if not (math.isfinite(C) and C > 0):
                raise ValueError(f"C is {C}, it has to be a positive number")

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(U, D) of the positive rows, then of the negative ones."""
        return *self._bound(self.C_positive), *self._bound(self.C_negative)

    def losses(self, rows: Segment, w: Array) -> float:
        """sum_i C_i loss(y_i <w, x_i>) over some rows; w (width,)."""
        m = np.empty(len(rows))
        row_dots(rows.indptr, rows.indices, rows.values, w, m)
        slack = np.maximum(0.0, 1.0 - rows.y * m)
        C = np.where(rows.y > 0, self.C_positive, self.C_negative)
        return float(C @ (slack if self.loss == "hinge" else slack * slack))

    def _bound(self, C: float) -> tuple[float, float]:
        return (C, 0.0) if self.loss == "hinge" else (math.inf, 1.0 / (2.0 * C))
