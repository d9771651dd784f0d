"""Statistics of visits to rows, added up over a sweep and over a pass.

Figures are arrays (count,), a number for each problem, see trainer.problem.tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import EMPTY, Array
from streamsvm.trainer.problem.lane_kernel import squares_of_lanes, sums_of_lanes
from streamsvm.trainer.problem.losses import box_of
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.progress import PassProgress
from streamsvm.trainer.updates.variables import Variables

# A short sweep leaves out a row at a bound if |G| is above this, and above the recent movement of margins. The reader
# leaves out rows at a bound with |G| above this, unless the job has another slack.
LEAST_SLACK = 0.1


class VisitSums(NamedTuple):
    """Sums and extremes over visits.

    M_plus, M_minus   largest and smallest projected gradient; -inf, inf without visits
    curvature, freed  changes of sum D_i alpha_i^2 / 2 and of the number of free rows, those by momentum included
    gap               sum of the rows' terms of P - D, each at the w of its visit: at one w they add up to P - D
    squares           sum of squared projected gradients where a step was made
    """

    M_plus: Array
    M_minus: Array
    curvature: Array
    freed: Array
    gap: Array
    squares: Array

    @classmethod
    def none(cls, count: int) -> "VisitSums":
        """Return the sums of no visits."""
        return cls(np.full(count, -np.inf), np.full(count, np.inf), *np.zeros((4, count)))

    def plus(self, other: "VisitSums") -> "VisitSums":
        """Return the sums over the visits of both."""
        return VisitSums(
            np.maximum(self.M_plus, other.M_plus),
            np.minimum(self.M_minus, other.M_minus),
            *(one + another for one, another in zip(self[2:], other[2:], strict=True)),
        )


class Visits(NamedTuple):
    """Visits to some rows, in order: score, gain and rest (k,) of each, see kernels.hinge.VisitNotes, and their sums.

    `rest` is empty unless the updater asks for it.
    """

    score: Array
    gain: Array
    rest: Array
    sums: VisitSums


@dataclass
class SweepStatistics:
    """Sums over the visits of a sweep, each at the w of its visit. Rows that the sweep leaves out are not counted.

    visits  number of rows visited
    """

    sums: VisitSums
    visits: int = 0

    @classmethod
    def none(cls, count: int) -> "SweepStatistics":
        """Return the statistics of a sweep without visits."""
        return cls(VisitSums.none(count))

    def add(self, visits: Visits) -> None:
        """Add these visits to the sums."""
        self.visits += len(visits.score)
        self.sums = self.sums.plus(visits.sums)

    @property
    def distance(self) -> Array:
        """M+ - M- of the sweep, (count,)."""
        return self.sums.M_plus - self.sums.M_minus

    @property
    def moved(self) -> float:
        """Root mean square of the margins' changes since the rows' last visits, in the task where it is largest."""
        return sqrt(float(np.max(self.sums.squares)) / max(self.visits, 1))

    @property
    def slack(self) -> float:
        """The |G| above which rows at a bound may be left out of the next sweep."""
        return max(LEAST_SLACK, self.moved)


class DualStatistics:
    """Collects the sums that kernels return, and makes the `PassProgress` of a pass from them.

    kept  arrays of `resumable` from which to go on; empty: statistics start at zero
    owed  number of visits still due for the rows that have streamed by; updates: number of visits so far
    """

    def __init__(self, variables: Variables, kept: Mapping[str, Array] = EMPTY) -> None:
        self._variables = variables
        tally = kept.get("tally", _no_tally(variables.count)).reshape(_TALLY_LINES, -1)
        self.updates, self.owed = int(np.max(tally[0])), float(np.max(tally[6]))
        self._curvature, self._free_rows, self._primal_bound, self._M_plus, self._M_minus = tally[1:6]
        self._D = kept.get("dual_objectives", np.zeros(variables.count))

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which new statistics go on, as their `kept`."""
        figures = self.updates, self._curvature, self._free_rows, self._primal_bound, self._M_plus, self._M_minus
        return {"tally": np.array(np.broadcast_arrays(*figures, self.owed)), "dual_objectives": self._D}

    def add(self, updates: int, sums: VisitSums) -> None:
        """Count `updates` visits to rows, with these sums."""
        self.updates += updates
        self._M_plus, self._M_minus = np.maximum(self._M_plus, sums.M_plus), np.minimum(self._M_minus, sums.M_minus)
        # New arrays, since momentum may restore the ones that `of_alpha` returned.
        self._curvature = self._curvature + sums.curvature
        self._free_rows = self._free_rows + sums.freed

    @property
    def of_alpha(self) -> tuple[Array, Array]:
        """The two sums that depend on alpha alone: sum D_i alpha_i^2 / 2, and the number of free rows."""
        return self._curvature, self._free_rows

    @of_alpha.setter
    def of_alpha(self, known: tuple[Array, Array]) -> None:
        self._curvature, self._free_rows = known

    def take_exact(self, tasks: list[int], curvature: Array, free: Array, M: Array, primal: Array) -> None:
        """Set the figures of these tasks (k,), computed from all rows at one w. M (2, k): M+ and M-; primal (k,): P."""
        self._curvature, self._free_rows = self._curvature.copy(), self._free_rows.copy()
        self._curvature[tasks], self._free_rows[tasks] = curvature, free
        self._M_plus[tasks], self._M_minus[tasks] = M
        bound = np.full(self._variables.count, np.inf)
        bound[tasks] = primal
        self.meet(bound)

    def add_screened(self, rows: int) -> None:
        """Take in that the reader has screened `rows` rows: they rest at bounds, so their projected gradient is 0."""
        if rows:
            zeros = np.zeros(self._variables.count)
            self.add(0, VisitSums.none(self._variables.count)._replace(M_plus=zeros, M_minus=zeros))

    def meet(self, primal: Array) -> Array:
        """Take in P (count,) at some w; return the least P so far, which is an upper bound of the optimum."""
        self._primal_bound = np.minimum(self._primal_bound, primal)
        return self._primal_bound

    def dual_objective(self, step: Step) -> Array:
        """Return D (count,) at the present alpha, of the step's rows and features; tasks not trained keep their D."""
        variables = self._variables
        alpha, w = variables.alpha[: step.n_rows], variables.w[: step.width]
        if variables.count == 1:
            flat = w.reshape(-1)
            self._D = np.array([float(alpha.sum() - flat @ flat / 2)]) - self._curvature
            return self._D
        sums, squares = np.empty((2, w.shape[1]))
        sums_of_lanes(alpha, sums)
        squares_of_lanes(w, squares)
        D = variables.figures_of_all(sums - squares / 2, 0.0) - self._curvature
        self._D = np.where(variables.is_trained, D, self._D)
        return self._D

    def begin_sweep(self) -> None:
        """Reset M+ and M- of the trained tasks: from now on they are those of one sweep."""
        is_trained = self._variables.is_trained
        self._M_plus = np.where(is_trained, -np.inf, self._M_plus)
        self._M_minus = np.where(is_trained, np.inf, self._M_minus)

    def finish_pass(self, step: Step, rows_unvisited: int, primal: Array) -> PassProgress:
        """Return the progress of the pass that `step` ends, and reset M+ and M-. `primal`: P at some w, or inf."""
        self.meet(primal)
        progress = self.progress(step, rows_unvisited)
        self.begin_sweep()
        return progress

    def progress(self, step: Step, rows_unvisited: int) -> PassProgress:
        """Return the progress so far, without a reset."""
        arrays = self._M_plus, self._M_minus, self.dual_objective(step), self._primal_bound, self._free_rows
        figures = [array[: self._variables.tasks.count].tolist() for array in arrays]
        each = tuple(
            PassProgress(step.pass_, self.updates, M_plus, M_minus, rows_unvisited, D, primal_bound, int(free_rows))
            for M_plus, M_minus, D, primal_bound, free_rows in zip(*figures, strict=True)
        )
        worst = max(each, key=lambda task: task.gap)
        return worst if len(each) == 1 else replace(worst, lanes=each)


_TALLY_LINES = 7  # updates, curvature, free rows, primal bound, M+, M-, visits owed


def _no_tally(count: int) -> Array:
    return np.array([(0, 0.0, 0, np.inf, -np.inf, np.inf, 0.0)] * count).T


def warm_statistics(tasks: Tasks, alpha: Array) -> Mapping[str, Array]:
    """Return the `kept` of DualStatistics for training that begins at alpha. All rows of a task must have one C."""
    if not alpha.any():
        return EMPTY
    tally = _no_tally(tasks.n_figures)
    if tasks.is_joint:
        tally[1:3, 0] = _joint_alpha(tasks, alpha)
    else:
        for number, task in enumerate(tasks.each):
            U, D = (float(each[0]) for each in box_of(tasks.loss, np.array([task.C_positive])))
            own = alpha[:, number]
            if own.any():
                tally[1:3, number] = D * float(own @ own) / 2.0, np.count_nonzero((own > 0.0) & (own < U))
    return {"tally": tally}


def _joint_alpha(tasks: Tasks, alpha: Array) -> tuple[float, int]:
    # A row's alpha of its own class alone is above 0. D is the sum of these, less |w|^2 / 2.
    others = float(np.minimum(alpha, 0.0).sum())
    own, C = alpha.argmax(axis=1), np.array([task.C_positive for task in tasks.each])
    largest = alpha.max(axis=1)
    with_room = np.count_nonzero(alpha < 0.0, axis=1) + (largest < C[own])
    return others, int(np.count_nonzero((largest > 0.0) & (with_room > 1)))
