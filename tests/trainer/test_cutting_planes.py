"""CPA and OCAS against plain numpy and the paper's figures: cuts, the reduced problem, the line search."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.trainer.solvers import cutting_planes as module
from streamsvm.trainer.solvers.cutting_planes import IDLE_ROUNDS, Cuts, Line
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import exact, solving
from tests.reference import cutting_planes as reference
from tests.reference import data
from tests.reference.cutting_planes import line_search, reduced_problem
from tests.reference.optima import OPTIMA
from tests.training import train

SOLVERS = ("cpa", "ocas")
ALL_ROWS = 10 << 20  # bytes of cache, more than the rows need


def bounds(directory, dataset, solver, passes, **settings):
    """(primal_bound, dual_objective) after each of so many passes."""
    with solving(directory, dataset, ALL_ROWS, 1.0, solver=solver, **settings) as session:
        return [(each.primal_bound, each.dual_objective) for each in islice(session.passes, passes)]


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
def test_iterations_are_those_of_plain_numpy(tmp_path, C, monkeypatch):
    monkeypatch.setattr("streamsvm.trainer.solvers.cutting_planes._INNER_SHARE", 1e-8)
    dataset = make_dataset(tmp_path / "data", *random_problem(80, 12, 6))
    problem = exact(dataset)
    dense = problem.X.toarray()
    found = bounds(tmp_path / "cpa", dataset, "cpa", 12, C=C)
    assert np.array(found) == pytest.approx(np.array([*reference.cpa(dense, problem.y, C, 12)]), rel=2e-5)
    # The second pass of each iteration has its upper bound.
    found = bounds(tmp_path / "ocas", dataset, "ocas", 24, C=C)[1::2]
    assert np.array(found) == pytest.approx(np.array([*reference.ocas(dense, problem.y, C, 12)]), rel=2e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_change_rounding_at_most(tmp_path, solver):
    dataset = make_dataset(tmp_path / "data", *random_problem())
    alone, shared, again = (
        bounds(tmp_path / name, dataset, solver, 20, threads=threads)
        for name, threads in (("alone", 1), ("shared", 2), ("again", 2))
    )
    assert [upper for upper, _ in shared] == pytest.approx([upper for upper, _ in alone], rel=1e-6)
    assert again == shared


@pytest.fixture(scope="module")
def a9a(tmp_path_factory):
    data.require("a9a")
    return make_dataset(tmp_path_factory.mktemp("a9a") / "data", *data.load_binary("a9a"))


@pytest.mark.parametrize(("solver", "C", "passes"), [
    ("ocas", 0.01, 26), ("ocas", 0.1, 58), ("ocas", 1.0, 136), ("cpa", 0.01, 67),
])  # fmt: skip
def test_passes_over_a9a_to_the_gap_of_the_paper(tmp_path, a9a, solver, C, passes):
    found = train(tmp_path / "run", a9a, 64 << 20, solver=solver, C=C, tolerance=1e-3, max_passes=1000)
    assert found.result["stop_reason"] == "tolerance"
    # An independent implementation took so many; the reduced problem may be solved more or less exactly.
    assert 0.7 * passes <= len(found.passes) <= 1.1 * passes
    if C != 0.1:
        last = found.passes[-1]
        assert last["dual_objective"] <= OPTIMA["a9a", C] <= last["primal_bound"] * (1 + 1e-8)


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(2) as executor:
        yield executor


# Few distinct values, so that breakpoints coincide; powers of two times small integers, so that no slope is rounded.
row = st.tuples(st.integers(-8, 8).map(lambda v: v / 4), st.integers(-8, 8).map(lambda v: v / 2))


def objective(c, B, inner, square, k) -> float:
    return inner * k + square * k * k / 2 + float(np.maximum(0.0, c + k * B.astype(float)).sum())


def brute_force(c, B, inner, square) -> float:
    """The least value: between two breakpoints f is a parabola, which has its least value inside or at an end."""
    moves = B != 0
    ends = np.unique([0.0, *(-c[moves] / B[moves]).clip(0.0).tolist()])
    values = [objective(c, B, inner, square, k) for k in ends]
    for low, high in zip(ends, [*ends[1:], np.inf], strict=True):
        inside = low + 1.0 if high == np.inf else (low + high) / 2
        slope = inner + float(B[c + inside * B > 0].astype(float).sum())
        values.append(objective(c, B, inner, square, np.clip(-slope / square, low, high)))
    return min(values)


def line(pool, c, B, inner, square) -> Line:
    return Line(np.array(c, float), np.array(B, np.float32), inner, square, pool)


@pytest.mark.parametrize("most_sorted", [0, 2, 1000])
@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=12), st.integers(-8, 8), st.integers(1, 8))
def test_nothing_on_the_line_is_less(pool, most_sorted, rows, inner, square):
    c, B = np.array(rows).T
    B = B.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_SORTED", most_sorted)
        patch.setattr(module, "_PART_ROWS", 3)
        k = line(pool, c, B, inner / 4, square / 8).minimum()
    least = brute_force(c, B, inner / 4, square / 8)
    assert k >= 0.0
    assert objective(c, B, inner / 4, square / 8, k) == pytest.approx(least, rel=1e-12, abs=1e-12)


def random_line(seed, n=20_000):
    rng = np.random.default_rng(seed)
    c, B = rng.normal(0.5, 1.0, n), rng.normal(-0.1, 1.0, n).astype(np.float32)
    return c, B, rng.normal() * n / 10, n * 10.0 ** rng.integers(-6, 2)


@pytest.mark.parametrize("seed", range(10))
def test_as_the_walk_over_all_breakpoints(pool, seed):
    c, B, inner, square = random_line(seed)
    found = line(pool, c, B, inner, square).minimum()
    assert found == pytest.approx(line_search(c, B.astype(float), inner, square), rel=1e-10)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(module, "_PART_ROWS", 1000)
    found = []
    for threads in (1, 2, 7):
        with ThreadPoolExecutor(threads) as executor:
            c, B, inner, square = random_line(1)
            search = line(executor, c, B, inner, square)
            found.append((search.minimum(), search.move(0.25)))
    assert len(set(found)) == 1


def test_the_minimum_may_be_at_a_jump_inside_a_parabola_beyond_one_or_at_the_start(pool):
    # One row, f(k) = k^2/2 + 4 max(0, 1 - k/2): its slope turns at the jump, k = 2, from 0 to 2.
    assert line(pool, [4.0], [-2.0], 0.0, 0.5).minimum() == 2.0
    assert line(pool, [4.0], [-2.0], 0.0, 2.0).minimum() == 1.0
    assert line(pool, [4.0], [-2.0], -10.0, 0.5).minimum() == 20.0
    assert line(pool, [4.0], [-2.0], 2.0, 0.5).minimum() == 0.0
    assert line(pool, [4.0], [0.0], 0.0, 0.0).minimum() == 0.0


def test_move_leads_along_the_line_and_tells_the_losses(pool):
    c, B, inner, square = random_line(3)
    search = line(pool, c.copy(), B, inner, square)
    assert search.move(0.5) == pytest.approx(np.maximum(0.0, c + 0.5 * B.astype(float)).sum(), rel=1e-12)
    assert search.move(0.25) == pytest.approx(np.maximum(0.0, c + 0.75 * B.astype(float)).sum(), rel=1e-12)


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
