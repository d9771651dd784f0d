"""Nesterov's momentum: each sweep begins a little beyond where the last one ended, in the same direction.

Near the optimum each sweep of coordinate descent reduces the gap by the same factor, which is near 1 where rows are
much alike. Momentum adds beta times the last sweep's change (Nesterov 1983). Where n sweeps were needed, about the
square root of n are enough then. Each task has its own beta.

Momentum may move alpha out of its box. The row's next visit brings it back, so the next sweep visits every row that was
moved. Momentum moves only rows that the last sweep has changed.
"""

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array, read_only
from streamsvm.trainer.kernels.hinge import move_on
from streamsvm.trainer.problem.lane_kernel import differ, move_lanes
from streamsvm.trainer.updates.statistics import DualStatistics
from streamsvm.trainer.updates.variables import Variables

_LARGEST = 0.98
LATE_SWEEPS = 8  # number of sweeps over which the rate at which the gap falls is averaged


class Momentum:
    """Moves alpha and w by momentum: call `begin_sweep`, visit every row that `has_moved`, once, then `end_sweep`.

    Call `undo` instead of `end_sweep` after a sweep that has not visited these rows. Momentum moves the variables of
    the rows and features of `step`, and sets `variables.before`.
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
        """Move alpha and w. `gaps` are the duality gaps of tasks in each sweep of the run so far, (count,) each."""
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
        """Return which of the rows (k,) have another alpha than at the end of the last sweep, (k,) bool."""
        has_moved = np.empty(len(row_id), np.bool_)
        differ(self._alpha, self._earlier_alpha, *read_only(row_id), has_moved)
        return has_moved

    def end_sweep(self, yields: Array) -> None:
        """End a sweep that visited all moved rows. `yields` (count,) bool: tasks without momentum in the next sweep."""
        self._variables.before = self._variables.alpha
        self._yields = yields

    def undo(self) -> None:
        """Restore alpha, w and their sums in the statistics as they were at the end of the last sweep."""
        self._alpha[:] = self._earlier_alpha
        self._w[:] = self._earlier_w
        self._statistics.of_alpha = self._of_alpha
        self._variables.before = self._variables.alpha


def beta(gaps: list[float], sweeps: int) -> float:
    """Return the momentum factor after `sweeps` sweeps, the last of which had these gaps; 0 after at most two sweeps.

    On a quadratic function the best beta is r / (2 - r), where r is the rate at which the gap falls with this beta.
    Using the observed rate converges to the best beta from both sides. At first beta is Nesterov's k / (k + 3).
    """
    k = sweeps - 2
    if k <= 0:
        return 0.0
    return min(_LARGEST, k / (k + 3), (r := rate(gaps)) / (2.0 - r))


def rate(gaps: list[float], most: int = LATE_SWEEPS) -> float:
    """Return the geometric mean of the factors by which the last sweeps reduced the gap, at most 1; 1 if not known.

    most  number of sweeps over which to average
    """
    sweeps = min(most, len(gaps) - 1)
    if sweeps <= 0:
        return 1.0
    return min(1.0, (gaps[-1] / gaps[-1 - sweeps]) ** (1.0 / sweeps)) if gaps[-1 - sweeps] > 0.0 else 0.0
