"""Stores the decision values of the rows that tasks leave out of training: held-out folds of a cross-validation."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamsvm.storage.files.arrays import new_array, open_array
from streamsvm.storage.rows.csr import WEIGHT, Array
from streamsvm.storage.rows.segment import TARGET

HELD_OUT_FILE = "held_out"  # in a run directory
_FIELDS = {"is_held_out": np.dtype("?"), "target": TARGET, "decision_value": np.dtype("<f8")}
HELD_OUT = np.dtype(list(_FIELDS.items()))
WEIGHT_FILE = "held_out.weight"  # exists if rows have weights


class HeldOut:
    """Files of held-out rows' decision values and targets (in classification signs y), filled by a certificate pass.

    A file for each field has the values of all rows in each lane, (lanes, n_rows).

    lanes  numbers of the lanes (tasks) that leave rows out; a row has the same weight in all lanes
    """

    def __init__(self, run: Path, n_rows: int, lanes: Sequence[int] = (0,)) -> None:
        self._weight_file, self._n_rows = run / WEIGHT_FILE, n_rows
        self._weight_file.unlink(missing_ok=True)
        self._weight: Array | None = None
        shape = max(lanes) + 1, n_rows
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
