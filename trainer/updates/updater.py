"""Visits rows of a problem, counts what the visits met, and tells the reader: a visitor for each family of losses."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.coordinate import GAP
from streamsvm.trainer.kernels.logistic import visit_logistic
from streamsvm.trainer.kernels.regression import Tube, visit_regression
from streamsvm.trainer.kernels.visit import Dual, Notes, Weights, visit_rows
from streamsvm.trainer.problem.objective import REGRESSION
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.updates.statistics import Tally
from streamsvm.trainer.updates.sums import NONE, Sums

NO_REST, NO_LOCK = np.empty(0, np.float32), np.empty(0, np.int64)

Note = Callable[[Array, Array], None]  # takes the ids (k,) of rows that were visited, and their scores (k,)


class Visits(NamedTuple):
    """Of some rows, one after the other: score, gain and rest of each (k,), see kernels.visit.Notes; their sums.

    `rest` is empty where nobody asked.
    """

    score: Array
    gain: Array
    rest: Array
    sums: Sums


class Visiting(ABC):
    """Visits rows, and tells the reader.

    before  (n_rows,) alpha before momentum moved it; alpha where it has not
    """

    def __init__(self, tally: Tally, note: Note, before: Array, visited: Visited = UNMAPPED) -> None:
        self._visited = visited
        self._tally = tally
        self.note = note
        self.before = before
        self._lock = np.zeros(1, np.int64)

    def visit(self, rows: Segment, order: Array, is_alone: bool = True) -> Visits:
        """Visit the rows at the positions `order` (k,) int32. Not alone: other threads visit other rows meanwhile."""
        found = [self._visit(part, own, is_alone) for part, own in self._visited.batches(rows, order)]
        return found[0] if len(found) == 1 else joined(found)

    @abstractmethod
    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        """Visit rows as they are trained on."""

    def take(self, rows: Segment, order: Array, visits: Visits) -> None:
        """Count these visits, and tell the reader."""
        self._tally.add(len(order), visits.sums)
        self.note(rows.row_id[order], visits.score)


class Visitor(Visiting):
    """Of the hinge family. alpha (n_rows,) and w (width,) change in place; of one lane.

    kind       of score: see trainer.kernels.coordinate
    asks_rest  whether visits are to tell how far rows rest
    """

    def __init__(
        self,
        problem: Problem,
        alpha: Array,
        w: Array,
        tally: Tally,
        note: Note,
        kind: int = GAP,
        asks_rest: bool = False,
    ) -> None:
        super().__init__(tally, note, alpha, problem.visited)
        self._problem = problem
        self._box = problem.box
        self.kind = kind
        self._asks_rest = asks_rest
        self._alpha = alpha
        self._w = w

    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        rest = np.empty(len(order), np.float32) if self._asks_rest else NO_REST
        notes = Notes(np.empty(len(order), np.float32), np.empty(len(order)), rest)
        found = visit_rows(
            order,
            rows.columns,
            self._box,
            self.kind,
            Dual(self._alpha, self.before),
            Weights(self._w, NO_LOCK if is_alone else self._lock),
            notes,
        )
        return gathered(rows, order, notes, found)

    def rests_beyond(self, row_id: Array, visits: Visits, above: float, below: float) -> Array:
        """Which of the rows (k,) just visited rest by more than this at alpha_i = 0, or than -below at U_i: (k,) bool.

        LIBLINEAR shrinks these; `above` and `below` are M+ and M- of the round before (Hsieh et al. 2008, algorithm 3).
        """
        return visits.rest > np.where(self._alpha[row_id] == 0.0, above, -below)


class LogisticVisitor(Visitor):
    """Of logistic regression. No row ever rests: at the optimum none is at a bound."""

    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        C_positive, _, C_negative, _ = self._problem.box
        found = visit_logistic(order, rows.columns, C_positive, C_negative, self._alpha, self._w)
        return gathered(rows, order, Notes(_zeros(order), _zeros(order), _zeros(order) - 1), found)


class RegressionVisitor(Visitor):
    """Of support vector regression."""

    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        U, D, _, _ = self._problem.box
        rest = _zeros(order)
        tube = Tube(U, D, self._problem.epsilon, self._problem.weight)
        found = visit_regression(order, rows.columns, tube, self._alpha, self._w, rest)
        return gathered(rows, order, Notes(_zeros(order), _zeros(order), rest), found)

    def rests_beyond(self, row_id: Array, visits: Visits, above: float, below: float) -> Array:
        """By more than the larger of the two (Ho, Lin 2012, section 3.2)."""
        return visits.rest > max((one for one in (above, -below) if one < np.inf), default=np.inf)


def visitor_of(loss: str) -> type[Visitor]:
    """Who visits the rows of a problem with this loss."""
    return LogisticVisitor if loss == "logistic" else RegressionVisitor if loss in REGRESSION else Visitor


def gathered(rows: Segment, order: Array, notes: Notes, found: tuple[float, float, float, int]) -> Visits:
    """What a kernel noted and found at the positions `order` (k,) of one problem."""
    gap = -float(np.minimum(notes.score, 0.0).sum(dtype=np.float64))
    # A step to where PG is 0 gains PG^2 / (2 Qii).
    squares = 2.0 * float(np.maximum(notes.gain, 0.0) @ rows.Qii[order])
    return Visits(*notes, Sums(*found, gap, squares))


def joined(found: list[Visits]) -> Visits:
    """Of some visits after others; there may be none."""
    sums = NONE
    for visits in found:
        sums = sums.plus(visits.sums)
    score, gain, rest = (
        np.concatenate([NO_REST, *column]) for column in list(zip(*found, strict=True))[:3] or [()] * 3
    )
    return Visits(score, gain, rest, sums)


def _zeros(order: Array) -> Array:
    return np.zeros(len(order), np.float32)
