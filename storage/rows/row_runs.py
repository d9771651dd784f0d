"""Runs of row ids: they show which rows two states of a dataset share, after blocks were added and removed.

A row's id is its position in the dataset, 0 to n_rows - 1; it changes when rows before it are removed. The id that the
row had when it was written (its written id) never changes and is never used again: it identifies the row for good.

The rows of a dataset are runs of consecutive written ids: (n_runs, 2) int64, first id and number of rows, ascending.
"""

import numpy as np

from streamsvm.storage.rows.csr import Array

RUN = np.dtype("<i8")


def one_run(n_rows: int) -> Array:
    """Return the runs of a dataset of `n_rows` rows from which no row was removed: one run."""
    return np.array([[0, n_rows]], RUN)


def count_rows(runs: Array) -> int:
    """Return the number of rows in the runs."""
    return int(runs[:, 1].sum())


def runs_of(first: Array, rows: Array) -> Array:
    """Return the runs of n pieces from their first written ids (n,), ascending, and numbers of rows (n,)."""
    begins = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1] + rows[:-1])))
    return np.stack((first[begins], np.add.reduceat(rows, begins)), axis=1).astype(RUN)


def written_ids(runs: Array, ids: Array) -> Array:
    """Translate present ids (n,), the positions of rows, into written ids (n,)."""
    begins = np.cumsum(runs[:, 1]) - runs[:, 1]
    run = np.searchsorted(begins, ids, side="right") - 1
    return runs[run, 0] + (ids - begins[run])


def all_ids(runs: Array) -> Array:
    """Return the written ids of all rows, (n_rows,)."""
    return written_ids(runs, np.arange(count_rows(runs)))


def first_rows(runs: Array, n_rows: int) -> Array:
    """Return the runs of the first `n_rows` rows."""
    before = np.cumsum(runs[:, 1]) - runs[:, 1]
    cut = np.stack((runs[:, 0], np.clip(n_rows - before, 0, runs[:, 1])), axis=1)
    return cut[cut[:, 1] > 0]


def shared_rows(before: Array, after: Array) -> Array:
    """Return the rows in both of two states of a dataset, given the runs of each: (n, 3) int64, ascending.

    Each range is (first id before, first id after, number of rows). Ids are positions in a state, not written ids.
    """
    bounds = np.unique(np.concatenate([edge for runs in (before, after) for edge in (runs[:, 0], runs.sum(axis=1))]))
    first, rows = bounds[:-1], np.diff(bounds)
    then, now = _ids(before, first), _ids(after, first)
    return np.stack((then, now, rows), axis=1)[(then >= 0) & (now >= 0)]


def _ids(runs: Array, written: Array) -> Array:
    """Translate written ids (n,) into present ids (n,) in the dataset with these runs; -1: it lacks the row."""
    run = np.searchsorted(runs[:, 0], written, side="right") - 1
    within = written - runs[run, 0]
    ids = (np.cumsum(runs[:, 1]) - runs[:, 1])[run] + within
    return np.where((run >= 0) & (within < runs[run, 1]), ids, -1)
