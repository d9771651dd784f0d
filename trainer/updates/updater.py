"""Visits rows: one coordinate step, or one step of all classes of a row, each by the kernel of its loss."""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.kernels.crammer_singer import visit_crammer_singer
from streamsvm.trainer.kernels.hinge import Dual, Notes, Weights, visit_rows
from streamsvm.trainer.kernels.hinge_lanes import visit_lanes
from streamsvm.trainer.kernels.logistic import visit_logistic
from streamsvm.trainer.kernels.regression import visit_regression
from streamsvm.trainer.updates.statistics import DualStatistics, Sums, Visits
from streamsvm.trainer.updates.variables import Variables

NO_REST, NO_LOCK = np.empty(0, np.float32), np.empty(0, np.int64)

Note = Callable[[Array, Array], None]  # takes the ids (k,) of rows that were visited, and their scores (k,)


class CoordinateUpdater:
    """Visits rows, which changes the variables, counts the visits and tells the reader of them.

    visited    how rows are made ready to be visited
    score      kind of score, see trainer.kernels.coordinate
    asks_rest  visits return `rest`, see trainer.kernels.hinge.Notes
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
        """Length of arrays of figures, see trainer.problem.tasks."""
        return self.variables.count

    def visit(self, rows: Segment, order: Array, is_alone: bool = True) -> Visits:
        """Visit the rows at the positions `order` (k,) int32. Not alone: other threads visit other rows meanwhile."""
        lock = NO_LOCK if is_alone else self._lock
        visits = [self._visit(part, own, lock) for part, own in self._visited.batches(rows, order)]
        return visits[0] if len(visits) == 1 else joined(visits, self.count)

    def take(self, rows: Segment, order: Array, visits: Visits) -> None:
        """Count these visits, and tell the reader."""
        self._statistics.add(len(order), visits.sums)
        self.note(rows.row_id[order], visits.score)

    def rests_beyond(self, row_id: Array, visits: Visits, above: float, below: float) -> Array:
        """Which of the rows (k,) just visited have |G| above `above` at alpha_i = 0, or above -below at U_i: (k,) bool.

        LIBLINEAR shrinks these; `above` and `below` are M+ and M- of the round before (Hsieh et al. 2008, algorithm 3).
        In regression the larger of the two counts (Ho, Lin 2012, section 3.2).
        """
        if self.variables.tasks.is_regression:
            return visits.rest > max((one for one in (above, -below) if one < np.inf), default=np.inf)
        return visits.rest > np.where(self.variables.alpha[row_id, 0] == 0.0, above, -below)

    def _kernel(self) -> Callable[[Segment, Array, Array], Visits]:
        tasks = self.variables.tasks
        if tasks.is_joint:
            return self._visit_classes
        if tasks.is_regression:
            return self._visit_regression
        if tasks.loss == "logistic":
            return self._visit_logistic
        return self._visit_one if tasks.n_figures == 1 else self._visit_tasks

    def _visit_one(self, rows: Segment, order: Array, lock: Array) -> Visits:
        notes = _notes(order, self._asks_rest)
        sums = visit_rows(
            order, rows.columns, self.variables.table, self.score, self._dual(), Weights(self._w(), lock), notes
        )
        return gathered(rows, order, notes, sums)

    def _visit_tasks(self, rows: Segment, order: Array, lock: Array) -> Visits:
        variables = self.variables
        sums, score = Sums.none(variables.w.shape[1]), np.empty(len(order), np.float32)
        visit_lanes(order, rows.columns, variables.table, self._dual(), Weights(self._w(), lock), score, sums)
        of_all = zip(sums, (-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0), strict=True)
        return Visits(score, NO_REST, NO_REST, Sums(*(variables.figures_of_all(*each) for each in of_all)))

    def _visit_classes(self, rows: Segment, order: Array, lock: Array) -> Visits:
        notes, n_classes = _notes(order, asks_rest=False), len(self.variables.tasks.each)
        sums = visit_crammer_singer(
            order, rows.columns, self.variables.table, n_classes, self._dual(), Weights(self._w(), lock), notes
        )
        return gathered(rows, order, notes, sums)

    def _visit_logistic(self, rows: Segment, order: Array, _lock: Array) -> Visits:
        sums = visit_logistic(order, rows.columns, self.variables.table, self._alpha(), self._w())
        # No row ever rests: at the optimum none is at a bound.
        return gathered(rows, order, Notes(_zeros(order), _zeros(order), _zeros(order) - 1), sums)

    def _visit_regression(self, rows: Segment, order: Array, _lock: Array) -> Visits:
        rest, variables = _zeros(order), self.variables
        epsilon = variables.tasks.epsilon
        sums = visit_regression(order, rows.columns, variables.table, epsilon, self._alpha(), self._w(), rest)
        return gathered(rows, order, Notes(_zeros(order), _zeros(order), rest), sums)

    def _dual(self) -> Dual:
        return Dual(self._alpha(), self.variables.before.reshape(-1))

    def _alpha(self) -> Array:
        return self.variables.alpha.reshape(-1)

    def _w(self) -> Array:
        return self.variables.w.reshape(-1)


def gathered(rows: Segment, order: Array, notes: Notes, sums: tuple[float, float, float, int]) -> Visits:
    """Visits of one problem from what a kernel noted at the positions `order` (k,), and returned."""
    gap = -float(np.minimum(notes.score, 0.0).sum(dtype=np.float64))
    # A step to where PG is 0 gains PG^2 / (2 Qii).
    squares = 2.0 * float(np.maximum(notes.gain, 0.0) @ rows.Qii[order])
    return Visits(*notes, Sums(*(np.array([float(each)]) for each in (*sums, gap, squares))))


def joined(some: list[Visits], count: int) -> Visits:
    """The visits of several batches as one; `count` is the length of arrays of figures, for an empty list."""
    sums = Sums.none(count)
    for visits in some:
        sums = sums.plus(visits.sums)
    score, gain, rest = (np.concatenate([NO_REST, *column]) for column in list(zip(*some, strict=True))[:3] or [()] * 3)
    return Visits(score, gain, rest, sums)


def _notes(order: Array, asks_rest: bool) -> Notes:
    rest = np.empty(len(order), np.float32) if asks_rest else NO_REST
    return Notes(np.empty(len(order), np.float32), np.empty(len(order)), rest)


def _zeros(order: Array) -> Array:
    return np.zeros(len(order), np.float32)
