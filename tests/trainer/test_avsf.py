"""AVSF stops on sweeps that visited every row, and on no others; its preferences survive what they must."""

import numpy as np
import pytest

from streamsvm.trainer.sweeps.selection import SCHEDULES, Adaptive
from tests.contracts.problems import a_dataset
from tests.contracts.solver import exact, solving
from tests.reference.dcd import dcd
from tests.training import train

N = 400
everywhere = pytest.mark.parametrize("schedule", SCHEDULES)

dataset = a_dataset(N)


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
@pytest.mark.parametrize("ends", [{}, {"tolerance": 1e-3, "relative_gap": 1e-4}])
def test_training_ends_by_the_relative_gap(dataset, schedule, ends, tmp_path):
    found = train(tmp_path / "run", dataset, 3 << 20, solver="avsf", schedule=schedule, C=10.0, max_passes=3000, **ends)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["relative_duality_gap"] <= 1e-4 and certificate["gap"] <= ends.get("tolerance", np.inf)


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


def test_a_warm_start_at_the_optimum_learns_nothing_and_breaks_nothing(dataset, tmp_path):
    """Sweep 0 gains next to nothing: what later visits gain is no infinite surprise."""
    problem = exact(dataset)
    best = dcd(problem.X, problem.y, 1.0, tol=1e-12)
    with solving(tmp_path / "run", dataset, 3 << 20, solver="avsf", positive=1.0, tolerance=None) as session:
        session.alpha[:], session.w[:] = best.alpha, best.w
        for progress in (next(session.passes) for _ in range(20)):
            assert progress.gap < 1e-5
        assert problem.dual(session.alpha) >= best.dual - 1e-12 * best.dual
        assert np.isfinite(session.w).all()


def test_preferences_begin_anew_and_the_mean_gain_does_not():
    rows, rng = np.arange(10, dtype=np.int32), np.random.default_rng(0)
    selection = Adaptive(10)
    for _ in range(2):
        selection.begin_sweep([rows])
        order = selection.order(rows, rng)
        selection.learn(rows, order, (order < 2).astype(float))
    selection.admit(rows)
    selection.begin_sweep([rows])
    order = selection.order(rows, rng)
    assert sorted(order.tolist()) == rows.tolist()
    # Had the mean been forgotten, this sweep would only make it.
    selection.learn(rows, order, (order < 2).astype(float))
    selection.begin_sweep([rows])
    assert np.ptp(np.bincount(selection.order(rows, rng), minlength=10)) > 0
