"""Adaptive selection: how visits are shared out, what gains do to preferences, and when AVSF stops."""

import numpy as np
import pytest

from streamsvm.storage.rows.scattered import ScatteredRows
from streamsvm.trainer.kernels.order import LEAST, MOST, adapt, sample_visits, share_visits
from streamsvm.trainer.sweeps.selection import SCHEDULES, Adaptive
from tests.bench.segments import make_segments
from tests.contracts.problems import a_dataset, random_problem
from tests.contracts.solver import exact, solving
from tests.reference.dcd import dcd
from tests.training import train

N = 400
everywhere = pytest.mark.parametrize("schedule", SCHEDULES)

dataset = a_dataset(N)


def preferences(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.exp(rng.uniform(np.log(LEAST), np.log(MOST), n)).astype(np.float32)


def share(preference, sweeps, q):
    """Visits (sweeps, n) of each row in each sweep."""
    n = len(preference)
    credit, visits = np.full(n, 0.5, np.float32), np.empty((sweeps, n), np.int32)
    for sweep in visits:
        share_visits(np.arange(n, dtype=np.int32), q, preference, credit, sweep)
        assert np.all((credit >= 0) & (credit <= 1))
    return visits


def test_rows_of_equal_preference_are_visited_once_a_sweep():
    assert np.all(share(np.ones(50, np.float32), 20, 1.0) == 1)


def test_visits_follow_the_preferences():
    preference = preferences(200)
    q = len(preference) / preference.sum()
    visits = share(preference, 300, q)
    owed = 300 * q * preference.astype(float)
    assert np.abs(visits.sum(axis=0) - owed).max() <= 0.5 + 1e-2
    assert abs(visits.sum() - 300 * 200) <= 200
    # Deterministic quotas: two sweeps of a row differ by one visit at most.
    assert np.all(np.ptp(visits, axis=0) <= 1)


def sample(preference, segments, seed):
    """Visits (n,) of each row in a sweep over segments that end at these rows."""
    n = len(preference)
    left, visits = np.array([n, preference.sum(dtype=np.float64)]), np.empty(n, np.int32)
    for rows in np.split(np.arange(n, dtype=np.int32), segments):
        part = np.empty(len(rows), np.int32)
        sample_visits(rows, int(seed.integers(1, 1 << 32)), preference, left, part)
        visits[rows] = part
    return visits


def test_a_sampled_sweep_has_as_many_visits_as_there_are_rows_of_equal_preference_one_each():
    rng = np.random.default_rng(0)
    assert np.all(sample(np.ones(50, np.float32), [20, 21], rng) == 1)
    for seed in range(50):
        assert sample(preferences(90, seed), [30, 31], rng).sum() == 90


def test_sampled_visits_are_those_owed_on_the_average():
    """Also to the rows that come last, of preferences as skewed as can be."""
    rng, preference = np.random.default_rng(1), np.full(40, LEAST, np.float32)
    preference[[0, 20, 39]] = MOST
    visits = np.array([sample(preference, [20], rng) for _ in range(4000)])
    owed = 40 * preference / preference.sum()
    # Five standard errors: a row's visits are floor or ceiling of a number that varies by a few.
    assert visits.mean(axis=0) == pytest.approx(owed, abs=5 * visits.std(axis=0).max() / np.sqrt(4000))


def adapted(gains, N=10, preference=None, mean=(1.0, 100.0)):
    """(preferences, mean) after visits to rows 0, 1, 2, ... in turn that gained `gains`."""
    n = len(gains)
    preference, mean = np.ones(n, np.float32) if preference is None else preference, np.array(mean)
    adapt(np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32), np.array(gains, float), N, preference, mean)
    return preference, mean


def test_a_visit_moves_its_preference_and_the_mean():
    preference, mean = adapted([3.0, 0.0])
    after = 1.0 + (3.0 - 1.0) / 10
    assert preference == pytest.approx([np.exp(0.2 * 2.0), np.exp(-0.2)], rel=1e-6)
    assert mean[0] == pytest.approx(after * 0.9)


def test_the_first_sweep_only_makes_the_mean():
    gains = np.arange(8.0)
    preference, mean = adapted(gains, N=8, mean=(0.0, 0.0))
    assert np.all(preference == 1.0)
    assert mean.tolist() == pytest.approx([gains.mean(), 8])


def test_without_a_gain_so_far_nothing_is_learned():
    """A warm start at the optimum: the mean is 0, and the first gain is no infinite surprise."""
    preference, mean = adapted([0.0, 0.0, 5.0, 5.0], mean=(0.0, 100.0))
    assert np.all(preference == 1.0)
    assert mean[0] == 5.0


@pytest.mark.parametrize("start", [LEAST, 1.0, MOST])
def test_preferences_keep_their_bounds(start):
    gains = [1e300, 0.0, 1e-300, np.finfo(float).tiny] * 50
    rows = np.tile(np.arange(4, dtype=np.int32), 50)
    preference, mean = np.full(4, start, np.float32), np.array([1e-12, 100.0])
    adapt(rows, np.arange(4, dtype=np.int32), np.array(gains), 1000, preference, mean)
    assert np.all((preference >= np.float32(LEAST)) & (preference <= MOST))
    assert np.all(np.isfinite(mean))


def order_of(selection, row_id, rng):
    """Positions to visit, as often as each is visited."""
    return np.repeat(np.arange(len(row_id), dtype=np.int32), selection.visits(row_id, rng))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_sweep_visits_as_many_rows_as_there_are(name):
    rng, selection = np.random.default_rng(1), SCHEDULES[name](120)
    segments = np.split(np.arange(120, dtype=np.int32), [50, 51])
    visits = 0
    for _ in range(60):
        selection.begin_sweep(segments)
        for rows in segments:
            order = order_of(selection, rows, rng)
            selection.learn(rows, order, rows[order] % 7 == 0)
            visits += len(order)
    assert visits == pytest.approx(60 * 120, rel=0.05)


@pytest.mark.parametrize("name", SCHEDULES)
def test_visits_to_a_row_are_spread_over_the_whole_sweep(name):
    """Not over windows of a few segments: w would be what the first visit left."""
    X, y = random_problem(1200, 30, 4)
    segments, selection = make_segments(X, y, 1 << 12), SCHEDULES[name](1200)
    selection._preference[:100] = 20.0
    assert len(segments) > 12
    schedule = selection.schedule(segments, np.random.default_rng(0))
    rows = list(ScatteredRows(segments).batches(schedule))
    ids = np.concatenate([each.row_id.copy() for each in rows])
    between = np.concatenate([np.diff(np.flatnonzero(ids == i)) for i in range(100)])
    # Of m visits at random among n, neighbours are n / (m + 1) apart on average.
    often = np.bincount(ids, minlength=1200)[:100].mean()
    assert between.mean() == pytest.approx(len(ids) / (often + 1), rel=0.15)


@everywhere
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_training_ends_with_a_sweep_over_all_rows(dataset, schedule, C, tmp_path):
    found = train(
        tmp_path / "run", dataset, 3 << 20, solver="avsf", schedule=schedule, C=C, tolerance=1e-3, max_passes=3000
    )
    assert found.result["stop_reason"] == "tolerance"
    assert found.passes[-1]["rows_unvisited"] == 0
    assert found.result["certificate"]["gap"] <= 1e-3
    problem = exact(dataset, C=C)
    best = dcd(problem.X, problem.y, C, tol=1e-8).dual
    assert found.result["certificate"]["dual_objective"] == pytest.approx(best, rel=1e-3)


@everywhere
def test_training_goes_on_until_both_ends_are_reached(dataset, schedule, tmp_path):
    ends = {"tolerance": 1e-3, "relative_gap": 1e-4, "max_passes": 3000}
    found = train(tmp_path / "run", dataset, 3 << 20, solver="avsf", schedule=schedule, C=10.0, **ends)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["relative_duality_gap"] <= 1e-4 and certificate["gap"] <= 1e-3


@everywhere
def test_a_sweep_that_misses_rows_does_not_end_training_and_the_next_visits_each_once(dataset, schedule, tmp_path):
    tolerance, settings = 0.05, {"solver": "avsf", "schedule": schedule, "positive": 1.0}
    with solving(tmp_path / "run", dataset, 3 << 20, tolerance=tolerance, **settings) as session:
        passes = [next(session.passes) for _ in range(60)]
    updates = np.diff([0, *(progress.updates for progress in passes)])
    followed = 0
    for progress, coming, visits in zip(passes, passes[1:], updates[1:], strict=False):
        if progress.gap <= tolerance:
            assert (coming.rows_unvisited, visits) == (0, N)
            followed += progress.rows_unvisited > 0
    assert followed
    # From a cold start the first sweep is uniform.
    assert (passes[0].rows_unvisited, updates[0]) == (0, N)


class Learned(Adaptive):
    """With preferences of an earlier run."""

    def __init__(self, n_rows: int, kept) -> None:
        super().__init__(n_rows, kept)
        self._preference[: n_rows // 2] = 20.0


def test_a_start_with_learned_preferences_does_not_end_before_a_uniform_sweep(dataset, tmp_path, monkeypatch):
    """At the optimum from the first row on: no sweep meets a gradient, and the first one misses rows."""
    monkeypatch.setitem(SCHEDULES, "accumulators", Learned)
    problem = exact(dataset)
    best = dcd(problem.X, problem.y, 1.0, tol=1e-12)
    with solving(tmp_path / "run", dataset, 3 << 20, solver="avsf", positive=1.0, tolerance=1e-3) as session:
        session.alpha[:], session.w[:] = best.alpha, best.w
        first, second = next(session.passes), next(session.passes)
    assert max(first.gap, second.gap) < 1e-3
    assert first.rows_unvisited > N / 4
    assert second.rows_unvisited == 0


def test_rows_that_come_back_begin_with_no_preference_and_the_mean_gain_does_not():
    rows, rng = np.arange(10, dtype=np.int32), np.random.default_rng(0)
    selection = Adaptive(10)
    for _ in range(2):
        selection.begin_sweep([rows])
        order = order_of(selection, rows, rng)
        selection.learn(rows, order, (order < 2).astype(float))
    selection.begin_sweep([rows])
    assert np.ptp(np.bincount(order_of(selection, rows, rng), minlength=10)) > 0
    selection.admit(rows)
    selection.begin_sweep([rows])
    order = order_of(selection, rows, rng)
    assert sorted(order.tolist()) == rows.tolist()
    # Had the mean been forgotten, this sweep would only make it.
    selection.learn(rows, order, (order < 2).astype(float))
    selection.begin_sweep([rows])
    assert np.ptp(np.bincount(order_of(selection, rows, rng), minlength=10)) > 0
