"""The optimisation problem, checked once.

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i <w, x_i>)

and its dual, which the solvers minimise,

    min_alpha  1/2 |sum_i alpha_i y_i x_i|^2 + sum_i D_i alpha_i^2 / 2 - sum_i alpha_i,  0 <= alpha_i <= U_i.

A loss is the pair (U, D): hinge (C, 0), squared hinge (inf, 1 / (2 C)) (Hsieh et al. 2008, equation 4). What
logistic loss and regression minimise is said above their kernels; regression has such pairs, too.
"""

import math
from dataclasses import dataclass, field

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.box import Box
from streamsvm.trainer.problem.objective import OBJECTIVES, make_objective, margins
from streamsvm.trainer.problem.regression_losses import NO_WEIGHT

# Those of support vector classification; all are the keys of OBJECTIVES.
LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True)
class Problem:
    """`C_positive` and `C_negative` are C_i of the rows with y = +1 and y = -1, the same in regression.

    epsilon   half the width of regression's tube
    weight    (n_rows,) of the rows of regression, by id: C_i is C times it; (0,): each has weight 1
    visited   how rows are made ready to be visited
    """

    loss: str
    C_positive: float
    C_negative: float
    epsilon: float = 0.0
    weight: Array = field(default_factory=lambda: NO_WEIGHT)
    visited: Visited = UNMAPPED

    def __post_init__(self) -> None:
        if self.loss not in OBJECTIVES:
            raise ValueError(f"loss is {self.loss!r}, known are {', '.join(OBJECTIVES)}")
        for C in (self.C_positive, self.C_negative):
            if not (math.isfinite(C) and C > 0):
                raise ValueError(f"C is {C}, it has to be a positive number")

    @property
    def box(self) -> Box:
        """Of the rows of both signs; in regression both are the same."""
        return Box(*self._bound(self.C_positive), *self._bound(self.C_negative))

    def losses(self, rows: Segment, w: Array) -> float:
        """sum_i C_i loss_i over some rows; w (width,)."""
        objective = make_objective(self.loss, self.C_positive, self.C_negative, self.epsilon, self.weight)
        return sum(
            objective.losses(objective.targets(part), margins(objective, part, w))
            for part in self.visited.all_batches(rows)
        )

    def _bound(self, C: float) -> tuple[float, float]:
        return (math.inf, 1.0 / (2.0 * C)) if self.loss.startswith("squared") else (C, 0.0)
