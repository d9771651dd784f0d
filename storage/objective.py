"""The objective at a fixed w, summed over rows: the losses, as reader and trainer share them.

Primal  P(w)     = 1/2 |w|^2 + sum_i C_i loss_i(w)
Dual    D(alpha) = sum_i d_i(alpha_i) - 1/2 |w|^2,  w = sum_i alpha_i y_i x_i, or sum_i alpha_i x_i in regression
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from storage.csr import Array, row_dots
from storage.margin_losses import Hinge, Logistic, SquaredHinge
from storage.regression_losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from storage.segment import Segment


class Objective(Protocol):
    """One loss. y (n,) are the rows' targets, alpha (n,) their dual variables.

    m (n,) is what the loss is a function of: the margin y_i <w, x_i>, or the residual <w, x_i> - y_i of regression.
    """

    @property
    def upper(self) -> tuple[float, float]:
        """Upper bounds on alpha_i for y_i = +1 and -1 (times |y_i|); of |alpha_i|, both the same, in regression."""

    def projected(self, y: Array, alpha: Array) -> Array:
        """The alpha (n,) inside the bounds that are nearest to these."""

    def m(self, y: Array, dots: Array) -> Array:
        """From <w, x_i> (n,)."""

    def losses(self, y: Array, m: Array) -> float:
        """Sum of C_i loss_i."""

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """PG_i of -D, (n,)."""

    def dual(self, y: Array, alpha: Array) -> float:
        """Sum of d_i(alpha_i)."""

    def coefficients(self, y: Array, alpha: Array) -> Array:
        """What multiplies x_i in w, (n,)."""


OBJECTIVES: dict[str, Callable[[float, float, float], Objective]] = {
    "hinge": lambda positive, negative, _: Hinge(positive, negative),
    "squared_hinge": lambda positive, negative, _: SquaredHinge(positive, negative),
    "logistic": lambda positive, negative, _: Logistic(positive, negative),
    "epsilon_insensitive": lambda C, _, epsilon: EpsilonInsensitive(C, epsilon),
    "squared_epsilon_insensitive": lambda C, _, epsilon: SquaredEpsilonInsensitive(C, epsilon),
}
# Losses that predict a number; the others tell two classes apart.
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")


def make_objective(loss: str, C_positive: float, C_negative: float, epsilon: float) -> Objective:
    """The objective of a job. C_i is C_positive y_i for y_i > 0, and C_positive for all rows in regression."""
    return OBJECTIVES[loss](C_positive, C_negative, epsilon)


def margins(objective: Objective, examples: Segment, w: Array) -> Array:
    """m (n_rows,) of the rows at w."""
    dots = np.empty(len(examples))
    row_dots(examples.indptr, examples.indices, examples.values, w, dots)
    return objective.m(examples.y, dots)
