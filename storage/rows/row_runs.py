"""Runs of rows: they tell which rows two states of a dataset share, after blocks were added and removed.

A row's id is its position, 0 to n_rows - 1; it changes when rows before it are removed. The id that a row was written
with never changes and is never used again, so written ids identify rows for good.

The rows of a dataset are runs of consecutive written ids: (n_runs, 2) int64, first id and number of rows, ascending.
"""

import numpy as np

from streamsvm.storage.rows.csr import Array

RUN = np.dtype("<i8")


def one_run(n_rows: int) -> Array:
    """The runs of a dataset from which no row was removed."""
    return np.array([[0, n_rows]], RUN)


def count_rows(runs: Array) -> int:
    """Number of rows in the runs."""
    return int(runs[:, 1].sum())


def runs_of(first: Array, rows: Array) -> Array:
    """The runs of pieces, given their first written ids and numbers of rows (n,), ascending; joins adjacent pieces."""
    begins = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1] + rows[:-1])))
    return np.stack((first[begins], np.add.reduceat(rows, begins)), axis=1).astype(RUN)


def written_ids(runs: Array, ids: Array) -> Array:
    """Translate the rows' positions `ids` (n,) into the ids (n,) with which the rows were written."""
    begins = np.cumsum(runs[:, 1]) - runs[:, 1]
    run = np.searchsorted(begins, ids, side="right") - 1
    return runs[run, 0] + (ids - begins[run])


def all_ids(runs: Array) -> Array:
    """Written ids of all rows, (n_rows,)."""
    return written_ids(runs, np.arange(count_rows(runs)))


def first_rows(runs: Array, n_rows: int) -> Array:
    """The runs of the first `n_rows` rows."""
    before = np.cumsum(runs[:, 1]) - runs[:, 1]
    cut = np.stack((runs[:, 0], np.clip(n_rows - before, 0, runs[:, 1])), axis=1)
    return cut[cut[:, 1] > 0]


def shared_rows(before: Array, after: Array) -> Array:
    """Rows that are in both states of a dataset: (n, 3) int64, ranges (first id before, first id after, rows).

    Ascending. The ids are positions in the two states, not written ids.
    """
    bounds = np.unique(np.concatenate([edge for runs in (before, after) for edge in (runs[:, 0], runs.sum(axis=1))]))
    first, rows = bounds[:-1], np.diff(bounds)
    then, now = _ids(before, first), _ids(after, first)
    return np.stack((then, now, rows), axis=1)[(then >= 0) & (now >= 0)]


def _ids(runs: Array, written: Array) -> Array:
    """Translate written ids (n,) into positions (n,) in the dataset with these runs; -1: the dataset lacks the row."""
    run = np.searchsorted(runs[:, 0], written, side="right") - 1
    within = written - runs[run, 0]
    ids = (np.cumsum(runs[:, 1]) - runs[:, 1])[run] + within
    return np.where((run >= 0) & (within < runs[run, 1]), ids, -1)
