"""Collects what each row is, by its id, for Newton steps: its terms in each task follow from it."""

from typing import NamedTuple

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, ROW_WEIGHT, TARGET, Segment
from streamsvm.trainer.problem.tasks import RowTerms, Tasks

CHUNK = 1 << 15  # rows looked at together: what is made of them stays in a processor cache
_OWN_BYTES, _TASK_BYTES = 2 * CODE.itemsize, 3 * 8  # of a row; and of its C, its m and the change of m in each task


def row_bytes(n_tasks: int, columns: int) -> int:
    """Bytes that the phase holds for each row; columns: optional ones that rows have, weights and targets."""
    return _OWN_BYTES + n_tasks * _TASK_BYTES + columns * TARGET.itemsize


class Labels(NamedTuple):
    """The columns of rows that `trainer.problem.tasks.Tasks.terms` reads, by row id, (n,) each or (0,)."""

    class_code: Array
    fold: Array
    target: Array
    weight: Array


class RowLabels:
    """Collects the labels of n rows: `take` all of them, in any order, then ask for `terms`."""

    def __init__(self, n_rows: int) -> None:
        self._labels = Labels(np.zeros(n_rows, CODE), np.zeros(n_rows, CODE), NO_COLUMN, NO_COLUMN)

    def take(self, rows: Segment) -> None:
        """Note what these rows are."""
        n_rows = len(self._labels.class_code)
        if len(rows.target) and not len(self._labels.target):
            self._labels = self._labels._replace(target=np.zeros(n_rows, TARGET))
        if len(rows.weight) and not len(self._labels.weight):
            self._labels = self._labels._replace(weight=np.zeros(n_rows, ROW_WEIGHT))
        for own, given in zip(self._labels, (rows.class_code, rows.fold, rows.target, rows.weight), strict=True):
            if len(own):
                own[rows.row_id] = given

    def C(self, tasks: Tasks, number: int) -> Array:
        """C_i of all rows in a task, (n,); a single broadcast value if all are equal."""
        n_rows = len(self._labels.class_code)
        C = np.empty(n_rows)
        for chunk in chunks(n_rows):
            C[chunk] = tasks.terms(Labels(*(each[chunk] for each in self._labels))).C[:, number]
        return np.broadcast_to(C[0], n_rows) if n_rows and (C[0] == C).all() else C

    def terms(self, C: Array, chunk: slice) -> RowTerms:
        """Terms of a chunk's rows in a task with this C (n,). Signs are 1: m and its change contain them already."""
        own = C[chunk]
        return RowTerms(np.broadcast_to(1.0, len(own)), own, self._labels.target[chunk], self._labels.class_code[chunk])


def chunks(n_rows: int) -> list[slice]:
    """The rows in order, some at a time."""
    return [slice(begin, min(begin + CHUNK, n_rows)) for begin in range(0, n_rows, CHUNK)]
