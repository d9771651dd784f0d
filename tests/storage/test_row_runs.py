"""Runs of written ids identify rows, however many rows were added and removed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.storage.rows.row_runs import first_rows, one_run, runs_of, shared_rows, written_ids

# Changes of a dataset: a piece of so many rows is added, or one of its pieces is removed.
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=12)


class Rows:
    """The pieces (first written id, rows) of a dataset that changes."""

    def __init__(self) -> None:
        self.pieces = [(0, 3)]
        self._next = 3

    def change(self, comes: bool, number: int) -> None:
        if comes:
            self.pieces.append((self._next, number))
            self._next += number
        elif len(self.pieces) > 1:
            self.pieces.pop(number % len(self.pieces))

    @property
    def runs(self):
        return runs_of(*np.array(self.pieces).T)

    @property
    def written(self) -> list[int]:
        """The written id of each row, by its present id."""
        return [first + k for first, rows in self.pieces for k in range(rows)]


def listed(runs) -> list[int]:
    return [first + k for first, rows in runs.tolist() for k in range(rows)]


def after(changes, more):
    """(written ids, runs) of a dataset after some changes, and after more changes."""
    rows, states = Rows(), []
    for part in (changes, more):
        for comes, number in part:
            rows.change(comes, number)
        states.append((rows.written, rows.runs))
    return states


@given(CHANGES)
def test_runs_hold_the_written_ids(changes):
    ((written, runs), _) = after(changes, [])
    assert written_ids(runs, np.arange(len(written))[::-1]).tolist() == written[::-1]


@given(CHANGES, CHANGES)
def test_shared_rows_are_those_of_both_states(changes, more):
    (before, runs_before), (now, runs_now) = after(changes, more)
    assert (listed(runs_before), listed(runs_now)) == (before, now)
    ranges = shared_rows(runs_before, runs_now)
    pairs = [(then + k, here + k) for then, here, rows in ranges.tolist() for k in range(rows)]
    assert pairs == [(before.index(row), now.index(row)) for row in sorted(set(before) & set(now))]


@given(CHANGES)
def test_pieces_without_a_gap_are_one_run(changes):
    (_, runs), _ = after(changes, [])
    ends, begins = runs.sum(axis=1)[:-1], runs[1:, 0]
    assert np.all(begins > ends) and np.all(runs[:, 1] > 0)


@given(CHANGES, st.integers(0, 40))
def test_the_first_rows_of_runs(changes, n_rows):
    (written, runs), _ = after(changes, [])
    assert listed(first_rows(runs, n_rows)) == written[:n_rows]


def test_datasets_that_have_no_row_in_common_share_none():
    assert len(shared_rows(one_run(5), np.array([[5, 3]]))) == 0
