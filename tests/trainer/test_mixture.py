"""Rows of several segments side by side, as they were; and what becomes of training if they are always the same."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.rows.mixture import SEGMENTS, Mixture
from streamsvm.trainer.sweeps.active import ActiveRows
from tests.contracts.objectives import plain_segment, updater_of
from tests.contracts.problems import random_problem

N_ROWS, N_SEGMENTS = 1200, 12
C = 1.0
MANY_ROUNDS = 200


def segments_of(X, y, count):
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel().astype(np.float64)
    for ids in np.array_split(np.arange(X.shape[0]), count):
        part = X[ids]
        columns = part.indptr.astype(np.int32), part.indices.astype(np.int32), part.data
        yield plain_segment(ids, y[ids], Qii[ids], *columns)


def test_rows_lie_side_by_side():
    X, y = random_problem(100)
    first, second, third = segments_of(X, y, 3)
    mixture = Mixture()
    assert len(mixture.rows) == 0
    mixture.add(first, np.array([3, 1], np.int32))
    mixture.add(second)
    assert mixture.rows.row_id.tolist() == [3, 1, *second.row_id]
    mixture.clear()
    mixture.add(third)
    mixture.add(first)
    ids = [*third.row_id, *first.row_id]
    rows = mixture.rows
    assert rows.row_id.tolist() == ids and np.array_equal(rows.class_code == 0, y[ids] > 0)
    assert rows.indices.tobytes() == X[ids].indices.tobytes() and rows.values.tobytes() == X[ids].data.tobytes()
    assert rows.indptr.tolist() == X[ids].indptr.tolist() and np.all(rows.Qii == [*third.Qii, *first.Qii])


def test_it_is_rich_with_some_segments_of_some_bytes():
    segments = list(segments_of(*random_problem(100), 10))
    mixture = Mixture(least_bytes=20_000)
    added = 0
    while not mixture.is_rich:
        mixture.add(segments[added % 10])
        added += 1
    assert added > SEGMENTS and 1500 < len(mixture.rows.indices) < 2500


def test_segments_may_be_of_any_size():
    """A row of a million values makes segments larger than any other."""
    X, y = random_problem(300)
    (small,), (large,) = segments_of(X[:10], y[:10], 1), segments_of(X, y, 1)
    mixture = Mixture(least_bytes=100)
    for _ in range(2):
        mixture.clear()
        for rows in (small, large, large, small):
            assert not mixture.is_rich
            mixture.add(rows)
        ids = [*small.row_id, *large.row_id, *large.row_id, *small.row_id]
        assert mixture.rows.row_id.tolist() == ids and np.array_equal(mixture.rows.values, X[ids].data)
        assert mixture.is_rich


def test_a_sweep_brings_every_row_once_with_others_each_time():
    segments = list(segments_of(*random_problem(100), 10))
    rng, mixture = np.random.default_rng(0), Mixture()
    for picked in (None, [np.arange(0, len(rows), 2, dtype=np.int32) for rows in segments]):
        orders = []
        for _ in range(2):
            order = []
            for numbers, rows in mixture.sweep(segments, rng, picked):
                own = [segments[number].row_id[... if picked is None else picked[number]] for number in numbers]
                assert rows.row_id.tolist() == np.concatenate(own).tolist()
                order += rows.row_id.tolist()
            orders.append(order)
        assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
        assert len(set(orders[0])) == len(orders[0]) == (100 if picked is None else 50)


def test_rows_without_values_fill_it_too():
    many, empty = 50_000, np.empty(0, np.int32)
    indptr = np.zeros(many + 1, np.int32)
    rows = plain_segment(np.arange(many), np.ones(many), np.zeros(many), indptr, empty, empty.astype(np.float32))
    mixture = Mixture()
    for _ in range(SEGMENTS):
        assert not mixture.is_rich
        mixture.add(rows)
    assert mixture.is_rich


def distance_after(rounds, segments, n_rows, width, mixture):
    """How much further the dual objective rises after so many rounds."""
    alpha, w = np.zeros(n_rows), np.zeros(width)
    visitor = updater_of(Tasks.single("hinge", C), alpha, w, asks_rest=True)
    rows = ActiveRows(segments, visitor, mixture)
    rng = np.random.default_rng(0)
    reached = []
    for _ in range(MANY_ROUNDS):
        rows.round(rng)
        rows.reactivate()
        reached.append(alpha.sum() - w @ w / 2)
    return reached[-1] - reached[rounds - 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_neighbours_each_time_cost_rounds(seed):
    """Where all rows have something in common: the words that are in every text, or a bias."""
    X, y = random_problem(N_ROWS, 2000, 30, 0.1, seed)
    X = sparse.hstack([np.full((N_ROWS, 1), 2.0, np.float32), X], format="csr")
    segments = list(segments_of(X, y, N_SEGMENTS))
    mixed, apart = (distance_after(12, segments, *X.shape, mixture) for mixture in (Mixture(), Mixture(1, 0)))
    assert mixed < apart / 1.5
