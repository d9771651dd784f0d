"""Keeps decision values of a certificate pass: of rows that tasks leave out, and the largest of a run's classes.

Where several runs train the classes of a model, each run some of them, each keeps the largest decision value of a row
among its own. The largest of these values is that of the predicted class: the model's score on its rows of training
needs no further pass over the data.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamsvm.storage.files.arrays import new_array, open_array
from streamsvm.storage.rows.csr import WEIGHT, Array
from streamsvm.storage.rows.segment import TARGET, Segment
from streamsvm.trainer.problem.tasks import Tasks

HELD_OUT_FILE = "held_out"  # in a run directory
_FIELDS = {"is_held_out": np.dtype("?"), "target": TARGET, "decision_value": np.dtype("<f8")}
HELD_OUT = np.dtype(list(_FIELDS.items()))
WEIGHT_FILE = "held_out.weight"  # exists if rows have weights
# The largest decision value of a row, and the row's weight if this value is that of the row's own class, else 0.
LARGEST = np.dtype([("value", "<f8"), ("right", WEIGHT)])
LARGEST_FILE = "largest"  # of a model, with its first column in the run, and the number of its columns
_ROWS_AT_ONCE = 1 << 16


class HeldOut:
    """Files of held-out rows' decision values and targets (in classification signs y), filled by a certificate pass.

    A file for each field has the values of all rows in each lane, (lanes, n_rows).

    lanes  numbers of the lanes (tasks) that leave rows out; a row has the same weight in all lanes
    """

    def __init__(self, run: Path, n_rows: int, lanes: Sequence[int] = (0,)) -> None:
        self._weight_file, self._n_rows = run / WEIGHT_FILE, n_rows
        self._weight_file.unlink(missing_ok=True)
        self._weight: Array | None = None
        shape = max(lanes, default=-1) + 1, n_rows
        self._fields = [new_array(_path(run, name), dtype, shape) for name, dtype in _FIELDS.items()]

    def add(self, row_id: Array, is_held_out: Array, target: Array, decision_values: Array, weight: Array) -> None:
        """Store rows `row_id` (n,): is_held_out, target (or sign y) and decision value <w, x_i>, each (n, width).

        A target (n, 1) is the same in all lanes.

        weight  (n,), or (0,): each of these rows has weight 1
        """
        for field, values in zip(self._fields, (is_held_out, target, decision_values), strict=True):
            field[:, row_id] = values[:, : len(field)].T
        if len(weight):
            self.put_weights(row_id, weight)

    def put(self, lane: int, row_id: Array, target: Array, decision_values: Array) -> None:
        """Store targets and decision values (n,) of rows that the task `lane` leaves out."""
        for field, values in zip(self._fields, (True, target, decision_values), strict=True):
            field[lane, row_id] = values

    def put_weights(self, row_id: Array, weight: Array) -> None:
        """Store the weights (n,) of rows, whether a task leaves them out or not; a row without a weight has 1."""
        if self._weight is None:
            self._weight = new_array(self._weight_file, WEIGHT, (self._n_rows,))
            self._weight[:] = 1.0
        self._weight[row_id] = weight


def read_held_out(run: Path, n_rows: int, lane: int = 0) -> tuple[Array, Array, Array]:
    """Read a lane's held-out rows: ids (n,) int64, ascending, targets or signs y (n,) float32, decision values (n,)."""
    shape = lane + 1, n_rows
    fields = (open_array(_path(run, name), dtype, shape, "r")[lane] for name, dtype in _FIELDS.items())
    is_held_out, target, decision_value = fields
    ids = np.flatnonzero(is_held_out)
    return ids, target[ids], decision_value[ids]


def read_weights(run: Path, n_rows: int) -> Array | None:
    """Read the weights of all rows by id, (n_rows,) float64; None if the rows have no weights."""
    path = run / WEIGHT_FILE
    return open_array(path, WEIGHT, (n_rows,), "r") if path.exists() else None


def _path(run: Path, field: str) -> Path:
    return run / f"{HELD_OUT_FILE}.{field}"


class LargestValues:
    """Files of the rows' largest decision values, one for each model of which the run trains some classes.

    directory  on a disk, so that memory need not hold the files; files of earlier runs in it are removed
    """

    def __init__(self, directory: Path, n_rows: int, tasks: Tasks) -> None:
        self._parts = []
        for older in directory.glob(f"{LARGEST_FILE}.*"):
            older.unlink()
        for columns in tasks.parts_of_models:
            classes = np.array([tasks.each[column].positive for column in columns])
            file = new_array(directory / f"{LARGEST_FILE}.{columns[0]}.{len(columns)}", LARGEST, (n_rows,))
            self._parts.append((columns, classes, file))

    def add(self, rows: Segment, decision_values: Array) -> None:
        """Store what the decision values (n, width) of these rows say; rows come in any order, on any threads."""
        weight = rows.weight if len(rows.weight) else np.ones(len(rows))
        for columns, classes, file in self._parts:
            values = decision_values[:, columns]
            found = np.empty(len(rows), LARGEST)
            found["value"] = values.max(axis=1)
            found["right"] = np.where(classes[values.argmax(axis=1)] == rows.class_code, weight, 0.0)
            file[rows.row_id] = found


def joint_accuracy(parts: Sequence[Path], n_rows: int, weight: float) -> float:
    """Return the accuracy of a model on its rows of training, from a file of each run, in the order of its classes.

    weight  sum of the weights of all rows
    """
    files, right = [open_array(path, LARGEST, (n_rows,), "r") for path in parts], 0.0
    for begin in range(0, n_rows, _ROWS_AT_ONCE):
        rows = np.stack([file[begin : begin + _ROWS_AT_ONCE] for file in files])
        predicted = rows["value"].argmax(axis=0)[np.newaxis]
        right += float(np.take_along_axis(rows["right"], predicted, axis=0).sum())
    return right / weight
