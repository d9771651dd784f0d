"""Nesterov's momentum: each sweep begins a little beyond where the last one ended, in the same direction.

Near the optimum each sweep of coordinate descent removes the same share of what is left, and a small share where rows
are much alike. Momentum goes on by beta times what the last sweep changed (Nesterov 1983). Then about the square root
of as many sweeps is enough. Each task has its own beta.

Momentum may move alpha out of its box. The row's next visit brings it back, so the next sweep visits every row that was
moved. Only rows that the last sweep visited have changed, so only these are moved.
"""

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.kernels.hinge import move_on
from streamsvm.trainer.problem.lane_kernel import move_lanes
from streamsvm.trainer.updates.statistics import DualStatistics
from streamsvm.trainer.updates.variables import Variables

_LARGEST = 0.98
LATE_SWEEPS = 8  # the rate at which the gap falls is the mean of so many


class Momentum:
    """`begin_sweep`, visit every row that `has_moved` tells, once, then `end_sweep` or `undo` it.

    It moves the variables of the rows and features of a step, and keeps `variables.before`. An undone sweep is not in
    the statistics either.
    """

    def __init__(self, variables: Variables, statistics: DualStatistics, step: Step) -> None:
        self._variables, self._statistics = variables, statistics
        self._of_alpha = statistics.of_alpha  # at the end of the last sweep
        self._alpha, self._w = variables.alpha[: step.n_rows], variables.w[: step.width]
        self._earlier_alpha = self._alpha.copy()
        self._earlier_w = variables.earlier_w[: step.width]
        self._earlier_w[:] = self._w
        self._yields = np.zeros(variables.count, bool)

    def begin_sweep(self, gaps: list[Array]) -> None:
        """Move alpha and w. `gaps` are those that the sweeps so far have met, (count,) each."""
        self._of_alpha = self._statistics.of_alpha
        late = np.array(gaps[-1 - LATE_SWEEPS :]).T.tolist()  # a list for each task; none if there are no gaps yet
        shares = [beta(of_task, len(gaps)) for of_task in late]
        share = self._variables.figures_of_packed(np.where(self._yields, 0.0, shares or 0.0))
        for now, earlier in ((self._alpha, self._earlier_alpha), (self._w, self._earlier_w)):
            if len(share) == 1:
                move_on(now.reshape(-1), earlier.reshape(-1), float(share[0]))
            else:
                move_lanes(now, earlier, share)
        self._variables.before = self._earlier_alpha

    def has_moved(self, row_id: Array) -> Array:
        """Which rows (k,) are elsewhere than at the end of the last sweep, (k,) bool."""
        return np.any(self._alpha[row_id] != self._earlier_alpha[row_id], axis=1)

    def end_sweep(self, yields: Array) -> None:
        """All rows that had moved have been visited. `yields`: tasks whose next sweep begins where this one ended."""
        self._variables.before = self._variables.alpha
        self._yields = yields

    def undo(self) -> None:
        """Back to the end of the last sweep."""
        self._alpha[:] = self._earlier_alpha
        self._w[:] = self._earlier_w
        self._statistics.of_alpha = self._of_alpha
        self._variables.before = self._variables.alpha


def beta(gaps: list[float], sweeps: int) -> float:
    """How much further to go, after so many sweeps, the last of which met these gaps. Nothing yet after two.

    On a quadratic function the best beta is r / (2 - r), where r is the rate that comes of it, what a sweep leaves of
    what was left: to take the rate observed leads there from both sides. At first it is Nesterov's k / (k + 3).
    """
    k = sweeps - 2
    if k <= 0:
        return 0.0
    return min(_LARGEST, k / (k + 3), (r := rate(gaps)) / (2.0 - r))


def rate(gaps: list[float]) -> float:
    """Share of the gap that a sweep has left of late, at most 1; 1 as long as that is not known."""
    sweeps = min(LATE_SWEEPS, len(gaps) - 1)
    if sweeps <= 0:
        return 1.0
    return min(1.0, (gaps[-1] / gaps[-1 - sweeps]) ** (1.0 / sweeps)) if gaps[-1 - sweeps] > 0.0 else 0.0
