"""The reduced problem is solved, and few cuts give a bound as true as many."""

import numpy as np
import pytest

from streamsvm.trainer.solvers.cuts import IDLE_ROUNDS, Cuts
from tests.reference.cutting_planes import reduced_problem


def random_cuts(count, width=6, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((count, width)) * 10.0 ** rng.uniform(-1, 1, (count, 1))
    return A, rng.uniform(0, 10, count)


def lower_bound(A, b) -> float:
    A, b = np.vstack([np.zeros(A.shape[1]), A]), np.append(0.0, b)
    u = reduced_problem(A, b)
    w = A.T @ u
    return b @ u - w @ w / 2


@pytest.mark.parametrize("seed", range(10))
def test_reduced_problem_is_that_of_scipy(seed):
    A, b = random_cuts(12, seed=seed)
    cuts, w = Cuts(6, 100), np.empty(6)
    for j in range(12):
        cuts.add(A[j], b[j])
        cuts.solve(1e-12, w)
        assert cuts.lower_bound == pytest.approx(lower_bound(A[: j + 1], b[: j + 1]), rel=1e-7)
    # Strong duality: the minimum of the reduced problem itself, at the w found.
    assert w @ w / 2 + max(0.0, float((b - A @ w).max())) == pytest.approx(cuts.lower_bound, rel=1e-9)


def test_a_loose_solution_is_within_its_tolerance():
    A, b = random_cuts(30)
    cuts, w = Cuts(6, 100), np.empty(6)
    for j in range(30):
        cuts.add(A[j], b[j])
    cuts.solve(0.5, w)
    exact = lower_bound(A, b)
    assert exact - 0.5 <= cuts.lower_bound < exact


def test_cuts_that_do_not_bound_are_not_used():
    cuts, w = Cuts(2, 100), np.full(2, np.nan)
    cuts.add(np.array([1.0, 0.0]), -1.0)
    cuts.solve(1e-12, w)
    assert cuts.lower_bound == 0.0
    assert w.tolist() == [0.0, 0.0]


def test_cuts_without_weight_are_dropped_after_some_rounds():
    cuts, w = Cuts(2, 1000), np.empty(2)
    cuts.add(np.array([1.0, 0.0]), -1.0)
    cuts.add(np.array([0.0, 3.0]), 1.0)
    for _ in range(IDLE_ROUNDS - 1):
        cuts.solve(1e-12, w)
    before = cuts.lower_bound, w.tolist()
    assert len(cuts) == 2
    cuts.solve(1e-12, w)
    assert len(cuts) == 1
    assert (cuts.lower_bound, w.tolist()) == before


@pytest.mark.parametrize("most", [3, 5, 20])
def test_however_few_cuts_are_kept_the_bound_never_falls_and_is_true(most):
    A, b = random_cuts(25, width=15)
    cuts, w, bounds = Cuts(15, most), np.empty(15), [0.0]
    for j in range(25):
        cuts.add(A[j], b[j])
        cuts.solve(1e-6, w)
        assert len(cuts) <= most
        bounds.append(cuts.lower_bound)
    assert np.all(np.diff(bounds) >= 0.0)
    exact = lower_bound(A, b)
    assert bounds[-1] <= exact * (1 + 1e-9)
    # They are enough to get well away from nothing.
    assert bounds[-1] > 0.5 * exact


def test_fewer_than_three_cuts_are_refused():
    with pytest.raises(ValueError, match="3"):
        Cuts(4, 2)
