"""The objective of one task on rows that are told by their y, and what trains it, on vectors: for tests."""

from functools import partial

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import CODE, ROW_ID, TARGET, Segment
from streamsvm.trainer.problem.losses import REGRESSION, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms
from streamsvm.trainer.problem.objective import Objective, make_objective
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.statistics import DualStatistics
from streamsvm.trainer.updates.updater import CoordinateUpdater
from streamsvm.trainer.updates.variables import Variables
from tests.contracts.kernels import columns, signs

C, EPSILON = {1: 2.0, -1: 0.5}, 0.7


def numbered_rows(loss: str, seed: int) -> Segment:
    """The rows of `columns` with ids 0, 1, 2, ...; in regression their signs are to be predicted."""
    rows = columns(seed=seed)
    rows = rows._replace(row_id=np.arange(len(rows.row_id), dtype=ROW_ID))
    if loss in REGRESSION:
        rows = rows._replace(target=signs(rows).astype(TARGET), class_code=np.zeros_like(rows.class_code))
    return Segment(*rows)


def objective_of(loss: str) -> Objective:
    """The objective of one task with these C and EPSILON."""
    return make_objective(Tasks.single(loss, C[1], C[1] if loss in REGRESSION else C[-1], EPSILON))


class PlainObjective:
    """Methods of a loss by y (n,): +1 and -1, or the numbers to predict; weight (n,) of the rows, or 1."""

    def __init__(self, loss: str, C_positive: float, C_negative: float, epsilon: float) -> None:
        self.tasks = Tasks.single(loss, C_positive, C_negative, epsilon)
        self.upper = tuple(np.broadcast_to(self.tasks.table.U[:, 0], 2).tolist())
        self._loss = make_loss(loss, epsilon)

    def __getattr__(self, name: str):
        return partial(self._of_rows, name)

    def _of_rows(self, name: str, y: Array, *arrays: Array, weight: Array | float = 1.0):
        task, is_first = self.tasks.each[0], (y > 0) | self.tasks.is_regression
        C = np.where(is_first, task.C_positive, task.C_negative) * weight
        terms = RowTerms(np.where(y > 0, 1.0, -1.0), C, y, (y < 0).astype(CODE))
        return getattr(self._loss, name)(terms, *arrays)


def plain_segment(row_id, y, Qii, indptr, indices, values, loss: str = "hinge") -> Segment:
    """Rows without weights and folds; y is +1 or -1, or in regression the numbers to predict."""
    n_rows = len(row_id)
    is_regression = loss in REGRESSION
    codes = np.zeros(n_rows, CODE) if is_regression else (np.asarray(y) < 0).astype(CODE)
    target = np.asarray(y, TARGET) if is_regression else np.empty(0, TARGET)
    no_fold = np.zeros(n_rows, CODE)
    return Segment(np.asarray(row_id, ROW_ID), codes, no_fold, Qii, indptr, indices, values, target)


def updater_of(tasks: Tasks, alpha: Array, w: Array, note=lambda *_: None, make=CoordinateUpdater, **options):
    """Visits rows of one task: alpha (n_rows,) and w (features,) change in place."""
    variables = Variables(tasks, alpha[:, np.newaxis], w[:, np.newaxis])
    return make(variables, DualStatistics(variables), note, **options)
