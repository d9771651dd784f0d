"""Scores models on the rows of training whose classes several runs train, each run some of them.

In its certificate pass, each run stores the largest decision value of each row among its own classes. The largest of
these values is that of the predicted class: the model needs no further pass over the data.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamsvm.storage.files.arrays import new_array, open_array
from streamsvm.storage.rows.csr import WEIGHT, Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.tasks import Tasks

# The largest decision value of a row, and the row's weight if this value is that of the row's own class, else 0.
LARGEST = np.dtype([("value", "<f8"), ("right", WEIGHT)])
LARGEST_FILE = "largest"  # of a model, with its first column in the run, and the number of its columns
_ROWS_AT_ONCE = 1 << 16


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
