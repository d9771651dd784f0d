"""Rows that come and go: which of them a dataset had then, and still has.

Rows have the ids 0 to n_rows - 1, and other ones when rows before them have gone. The ids that they were written with
stay, and none is used twice: these tell rows apart for good.

A dataset's rows in their order are runs of such ids: (n_runs, 2) int64, first id and number of rows, ascending.
"""

import numpy as np

from streamsvm.storage.rows.csr import Array

RUN = np.dtype("<i8")


def one_run(n_rows: int) -> Array:
    """The rows of a dataset that has lost none."""
    return np.array([[0, n_rows]], RUN)


def count_rows(runs: Array) -> int:
    """How many they are."""
    return int(runs[:, 1].sum())


def runs_of(first: Array, rows: Array) -> Array:
    """Of pieces (n,) in ascending order: those that follow each other without a gap are one run."""
    begins = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1] + rows[:-1])))
    return np.stack((first[begins], np.add.reduceat(rows, begins)), axis=1).astype(RUN)


def written_ids(runs: Array, ids: Array) -> Array:
    """The ids (n,) that rows were written with which have these now."""
    begins = np.cumsum(runs[:, 1]) - runs[:, 1]
    run = np.searchsorted(begins, ids, side="right") - 1
    return runs[run, 0] + (ids - begins[run])


def all_ids(runs: Array) -> Array:
    """The ids that all rows were written with, (n_rows,)."""
    return written_ids(runs, np.arange(count_rows(runs)))


def first_rows(runs: Array, n_rows: int) -> Array:
    """The runs of the first so many rows."""
    before = np.cumsum(runs[:, 1]) - runs[:, 1]
    kept = np.stack((runs[:, 0], np.clip(n_rows - before, 0, runs[:, 1])), axis=1)
    return kept[kept[:, 1] > 0]


def shared_rows(before: Array, after: Array) -> Array:
    """Rows that are in both: (n, 3) int64, ranges (id before, id after, rows), ascending.

    The ids are those that rows had and have, from 0 on.
    """
    bounds = np.unique(np.concatenate([edge for runs in (before, after) for edge in (runs[:, 0], runs.sum(axis=1))]))
    first, rows = bounds[:-1], np.diff(bounds)
    then, now = _ids(before, first), _ids(after, first)
    return np.stack((then, now, rows), axis=1)[(then >= 0) & (now >= 0)]


def _ids(runs: Array, written: Array) -> Array:
    """What the rows written with these ids (n,) are called in the dataset of these runs; -1: it has them not."""
    run = np.searchsorted(runs[:, 0], written, side="right") - 1
    within = written - runs[run, 0]
    ids = (np.cumsum(runs[:, 1]) - runs[:, 1])[run] + within
    return np.where((run >= 0) & (within < runs[run, 1]), ids, -1)
