"""Trains the problem of Crammer and Singer: alpha and w have an axis of classes, each figure is one number."""

from collections.abc import Mapping

import numpy as np

from streamsvm.storage.features.visits import UNMAPPED, Visited
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.crammer_singer import visit_crammer_singer
from streamsvm.trainer.kernels.visit import Dual, Notes, Weights
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.shared_state import Link
from streamsvm.trainer.updates.group import Parts
from streamsvm.trainer.updates.momentum import Momentum
from streamsvm.trainer.updates.statistics import Tally
from streamsvm.trainer.updates.updater import NO_LOCK, NO_REST, Note, Visiting, Visits, gathered
from streamsvm.trainer.updates.variables import Variables


def class_parts(
    problem: Problem, classes: Classes, link: Link, alpha: Array, w: Array, kept: Mapping[str, Array]
) -> Parts:
    """alpha (n_rows, width) and w (features, width), all that there is of them."""
    tally = Tally(alpha, w, kept)
    visitor = ClassVisitor(classes, link.weight, alpha, w, tally, link.note, problem.visited)
    return Variables(alpha, w, lambda: link.room), tally, visitor, Momentum


class ClassVisitor(Visiting):
    """A visit is to all classes of a row. weight (n_rows,) of the rows, or (0,); `before` is (n_rows, width)."""

    def __init__(
        self,
        classes: Classes,
        weight: Array,
        alpha: Array,
        w: Array,
        tally: Tally,
        note: Note,
        visited: Visited = UNMAPPED,
    ) -> None:
        super().__init__(tally, note, alpha, visited)
        self._C = np.array(classes.C)
        self._weight = weight
        self._alpha, self._w = alpha, w

    def _visit(self, rows: Segment, order: Array, is_alone: bool) -> Visits:
        notes = Notes(np.empty(len(order), np.float32), np.empty(len(order)), NO_REST)
        found = visit_crammer_singer(
            order,
            rows.columns,
            self._weight,
            self._C,
            self._w.shape[1],
            Dual(self._alpha.reshape(-1), self.before.reshape(-1)),
            Weights(self._w.reshape(-1), NO_LOCK if is_alone else self._lock),
            notes,
        )
        return gathered(rows, order, notes, found)


def warm_class_tally(classes: Classes, alpha: Array) -> dict[str, Array]:
    """What a Tally has to be given as `kept` if training begins with this alpha, of rows without weights."""
    if not alpha.any():
        return {}
    # Of a row's alpha that of its own class alone is above 0. D is the sum of these, less |w|^2 / 2.
    others = float(np.minimum(alpha, 0.0).sum())
    own, C = alpha.argmax(axis=1), np.array(classes.C)
    largest = alpha.max(axis=1)
    with_room = np.count_nonzero(alpha < 0.0, axis=1) + (largest < C[own])
    free = np.count_nonzero((largest > 0.0) & (with_room > 1))
    return {"tally": np.array([0, others, free, np.inf, -np.inf, np.inf, 0.0])}
