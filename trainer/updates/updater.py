"""Visits rows: a visit is a coordinate step, or a step of all classes of a row, made by the kernel of the loss."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.kernels.crammer_singer import visit_crammer_singer
from streamsvm.trainer.kernels.hinge import Dual, VisitNotes, Weights, visit_rows
from streamsvm.trainer.kernels.hinge_lanes import visit_lanes
from streamsvm.trainer.kernels.logistic_and_regression import visit_logistic_or_regression
from streamsvm.trainer.problem.losses import KINDS
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.statistics import DualStatistics, Visits, VisitSums
from streamsvm.trainer.updates.variables import Variables

NO_REST, NO_LOCK = np.empty(0, np.float32), np.empty(0, np.int64)
_LEAST_SCORE = np.finfo(np.float32).min  # of a row whose term of P - D is larger than a float32

KernelSums = tuple[float, float, float, int]  # M+, M-, changes of sum D_i alpha_i^2 / 2 and of the number of free rows
Note = Callable[[Array, Array], None]  # takes the ids (k,) of rows that were visited, and their scores (k,)


class CoordinateUpdater:
    """Visits rows, which changes the variables; counts the visits, and passes the rows' scores on to the reader.

    visited    applies feature maps to rows before they are visited
    score      kind of score, see trainer.kernels.coordinate
    asks_rest  visits return `rest`, see trainer.kernels.hinge.VisitNotes
    """

    def __init__(
        self,
        variables: Variables,
        statistics: DualStatistics,
        note: Note,
        visited: Visited = UNMAPPED,
        score: int = GAP,
        asks_rest: bool = False,
    ) -> None:
        self.variables, self.score = variables, score
        self._statistics, self.note, self._visited = statistics, note, visited
        self._asks_rest = asks_rest
        self._lock = np.zeros(1, np.int64)
        self._visit = self._kernel()

    @property
    def count(self) -> int:
        """Length of arrays of figures (P, D, M+, M-), see trainer.problem.tasks."""
        return self.variables.count

    def visit(self, rows: Segment, order: Array, is_alone: bool = True) -> Visits:
        """Visit the rows at the positions `order` (k,) int32. `is_alone`: no other thread visits rows meanwhile."""
        lock = NO_LOCK if is_alone else self._lock
        visits = [self._visit(part, own, lock) for part, own in self._visited.batches(rows, order)]
        return visits[0] if len(visits) == 1 else joined(visits, self.count)

    def take(self, rows: Segment, order: Array, visits: Visits) -> None:
        """Count these visits in the statistics, and pass the rows' scores on to the reader."""
        self._statistics.add(len(order), visits.sums)
        self.note(rows.row_id[order], visits.score)

    def rests_beyond(self, row_id: Array, visits: Visits, above: float, below: float) -> Array:
        """Return which rows just visited have |G| above `above` at alpha_i = 0, or above -below at U_i, (k,) bool.

        LIBLINEAR shrinks such rows; above and below are M+ and M- of the round before (Hsieh et al. 2008, algorithm 3).
        In regression |G| has to be above the larger of `above` and -below (Ho, Lin 2012, section 3.2).
        """
        if self.variables.tasks.is_regression:
            return visits.rest > max((one for one in (above, -below) if one < np.inf), default=np.inf)
        return visits.rest > np.where(self.variables.alpha[row_id, 0] == 0.0, above, -below)

    def _kernel(self) -> Callable[[Segment, Array, Array], Visits]:
        tasks = self.variables.tasks
        if tasks.is_joint:
            return partial(self._visit_noting, visit_crammer_singer, len(tasks.each))
        if not KINDS[tasks.loss].is_quadratic:
            return self._visit_logistic_or_regression
        return partial(self._visit_noting, visit_rows, self.score) if tasks.n_figures == 1 else self._visit_tasks

    def _visit_noting(
        self, kernel: Callable[..., KernelSums], parameter: int, rows: Segment, order: Array, lock: Array
    ) -> Visits:
        rest = np.empty(len(order), np.float32) if self._asks_rest else NO_REST
        notes = VisitNotes(np.empty(len(order), np.float32), np.empty(len(order)), rest)
        sums = kernel(order, rows.columns, self.variables.table, parameter, self._dual, self._weights(lock), notes)
        return gathered(rows, order, notes, sums)

    def _visit_tasks(self, rows: Segment, order: Array, lock: Array) -> Visits:
        variables = self.variables
        sums, score = VisitSums.none(variables.w.shape[1]), np.empty(len(order), np.float32)
        visit_lanes(order, rows.columns, variables.table, self._dual, self._weights(lock), score, sums)
        return Visits(score, NO_REST, NO_REST, self._of_all(sums))

    def _of_all(self, sums: VisitSums) -> VisitSums:
        """Return sums that have a number for each task, from sums that have one for each packed task."""
        each = zip(sums, (-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0), strict=True)
        return VisitSums(*(self.variables.figures_of_all(*one) for one in each))

    def _visit_logistic_or_regression(self, rows: Segment, order: Array, lock: Array) -> Visits:
        variables, score = self.variables, np.empty(len(order), np.float32)
        rest = np.empty(len(order), np.float32) if self._asks_rest else NO_REST
        sums = VisitSums.none(variables.w.shape[1])
        visit_logistic_or_regression(
            order, rows.columns, variables.table, variables.tasks.tube, self._dual, self._weights(lock), score, rest,
            sums,
        )  # fmt: skip
        return Visits(score, NO_REST, rest, self._of_all(sums))

    @property
    def _dual(self) -> Dual:
        return Dual(self.variables.alpha.reshape(-1), self.variables.before.reshape(-1))

    def _weights(self, lock: Array) -> Weights:
        return Weights(self.variables.w.reshape(-1), lock)


def gathered(rows: Segment, order: Array, notes: VisitNotes, sums: KernelSums) -> Visits:
    """Return the visits of one problem, from notes that a kernel made at the positions `order` (k,), and its sums."""
    gap = -float(np.clip(notes.score, _LEAST_SCORE, 0.0).sum(dtype=np.float64))
    # A step to where PG is 0 gains PG^2 / (2 Qii).
    squares = 2.0 * float(np.maximum(notes.gain, 0.0) @ rows.Qii[order])
    return Visits(*notes, VisitSums(*(np.array([float(each)]) for each in (*sums, gap, squares))))


def joined(some: list[Visits], count: int) -> Visits:
    """Return the visits of several batches as one: with their arrays concatenated, and their sums added up.

    count   length of the arrays of sums (`Tasks.n_figures`), needed if the list is empty
    """
    sums = VisitSums.none(count)
    for visits in some:
        sums = sums.plus(visits.sums)
    score, gain, rest = (np.concatenate([NO_REST, *column]) for column in list(zip(*some, strict=True))[:3] or [()] * 3)
    return Visits(score, gain, rest, sums)


class SolverParts(NamedTuple):
    """The variables of a solver, with the statistics and the updater that belong to them."""

    variables: Variables
    statistics: DualStatistics
    updater: CoordinateUpdater


def make_variables(
    settings: TrainerSettings,
    alpha: Array,
    w: Array,
    note: Note,
    kept: Mapping[str, Array],
    scratch_w: Callable[[], Array] | None = None,
    is_converged: Callable[[], Array] | None = None,
    score: int = GAP,
    asks_rest: bool = False,
) -> SolverParts:
    """Make variables, statistics and updater of a solver. See Variables and CoordinateUpdater.

    alpha (n_rows, width) and w (features, width) change in place.
    """
    variables = Variables(settings.tasks, alpha, w, scratch_w, is_converged)
    statistics = DualStatistics(variables, kept)
    updater = CoordinateUpdater(variables, statistics, note, settings.visited, score, asks_rest)
    return SolverParts(variables, statistics, updater)
