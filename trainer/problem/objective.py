"""The objective at a fixed w, summed over rows: the losses, as reader and trainer share them.

Primal  P(w)     = 1/2 |w|^2 + sum_i C_i loss_i(w)
Dual    D(alpha) = sum_i d_i(alpha_i) - 1/2 |w|^2,  w = sum_i alpha_i y_i x_i, or sum_i alpha_i x_i in regression
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from streamsvm.storage.rows.csr import Array, Figure, row_dots
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.class_losses import ClassObjective
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.lane_kernel import dots_of_lanes
from streamsvm.trainer.problem.lane_losses import LaneObjective
from streamsvm.trainer.problem.lanes import Group
from streamsvm.trainer.problem.margin_losses import Hinge, Logistic, SquaredHinge
from streamsvm.trainer.problem.regression_losses import NO_WEIGHT, EpsilonInsensitive, SquaredEpsilonInsensitive


class Objective(Protocol):
    """One loss. y (n,) are the rows' targets, alpha (n,) their dual variables.

    m (n,) is what the loss is a function of: the margin y_i <w, x_i>, or the residual <w, x_i> - y_i of regression.
    """

    @property
    def upper(self) -> tuple[Figure, Figure]:
        """Upper bounds on alpha_i for y_i = +1 and -1 (times |y_i|); of |alpha_i|, both the same, in regression."""

    def targets(self, rows: Segment) -> Array:
        """y of the rows, (n,)."""

    def projected(self, y: Array, alpha: Array) -> Array:
        """The alpha (n,) inside the bounds that are nearest to these."""

    def m(self, y: Array, dots: Array) -> Array:
        """From <w, x_i> (n,)."""

    def losses(self, y: Array, m: Array) -> Figure:
        """Sum of C_i loss_i."""

    def projected_gradient(self, y: Array, m: Array, alpha: Array) -> Array:
        """PG_i of -D, (n,)."""

    def dual(self, y: Array, alpha: Array) -> Figure:
        """Sum of d_i(alpha_i)."""

    def coefficients(self, y: Array, alpha: Array) -> Array:
        """What multiplies x_i in w, (n,)."""


OBJECTIVES: dict[str, Callable[[float, float, float, Array], Objective]] = {
    "hinge": lambda positive, negative, *_: Hinge(positive, negative),
    "squared_hinge": lambda positive, negative, *_: SquaredHinge(positive, negative),
    "logistic": lambda positive, negative, *_: Logistic(positive, negative),
    "epsilon_insensitive": lambda C, _, epsilon, weight: EpsilonInsensitive(C, epsilon, weight),
    "squared_epsilon_insensitive": lambda C, _, epsilon, weight: SquaredEpsilonInsensitive(C, epsilon, weight),
}
# Losses that predict a number; the others tell two classes apart.
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")


def make_objective(
    loss: str, C_positive: float, C_negative: float, epsilon: float, weight: Array = NO_WEIGHT
) -> Objective:
    """The objective of a job. C_i is C_positive y_i for y_i > 0, and C_positive for all rows in regression.

    weight  (n_rows,) of the rows of regression, by id, or (0,): each has weight 1
    """
    return OBJECTIVES[loss](C_positive, C_negative, epsilon, weight)


def make_axis_objective(loss: str, axis: Group | Classes, weight: Array) -> LaneObjective | ClassObjective:
    """That of a group of lanes, or of several classes at once; weight (n_rows,) of the rows, or (0,)."""
    if isinstance(axis, Classes):
        return ClassObjective(axis, weight)
    return LaneObjective(axis, {"hinge": Hinge, "squared_hinge": SquaredHinge}[loss], weight)


def margins(objective: Objective, examples: Segment, w: Array) -> Array:
    """m (n_rows,) of the rows at w; of several lanes (n_rows, lanes), at w (width, lanes)."""
    if w.ndim == 1:
        dots = np.empty(len(examples))
        row_dots(examples.indptr, examples.indices, examples.values, w, dots)
    else:
        dots = np.empty((len(examples), w.shape[1]))
        dots_of_lanes(examples.indptr, examples.indices, examples.values, w.reshape(-1), dots)
    return objective.m(objective.targets(examples), dots)
