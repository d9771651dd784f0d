"""CPA and OCAS against plain numpy, the optimum and the paper's figures: cuts, the reduced problem, the line search."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.rows.csr import EMPTY
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.solvers import cutting_planes as module
from streamsvm.trainer.solvers.cutting_planes import IDLE_ROUNDS, Cuts, CuttingPlaneOptions, Line, cpa, ocas
from streamsvm.trainer.updates.progress import PassProgress
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import random_problem
from tests.reference import cutting_planes as reference
from tests.reference import data
from tests.reference.cutting_planes import line_search, reduced_problem
from tests.reference.dcd import dcd, primal_objective
from tests.reference.optima import OPTIMA

SOLVERS = {"cpa": cpa, "ocas": ocas}
everywhere = pytest.mark.parametrize("name", SOLVERS)


class InMemory:
    """Rows as a solver has them from `trainer.rows.blocks.Blocks`: `blocks` lists of segments a pass."""

    kept = EMPTY

    def __init__(self, X, y, blocks=3, segment_rows=40) -> None:
        X = sparse.csr_matrix(X, dtype=np.float32)
        self.segments = [self._segment(X, y, first, segment_rows) for first in range(0, len(y), segment_rows)]
        self._blocks = np.array_split(np.arange(len(self.segments)), blocks)
        self._turns = self._count(len(y))
        self.passes = 0

    @staticmethod
    def _segment(X, y, first, rows) -> Segment:
        part, ids = X[first : first + rows], np.arange(first, min(first + rows, len(y)), dtype=np.int32)
        columns = (part.indptr.astype(np.int32), part.indices.astype(np.int32), part.data)
        return plain_segment(ids, y[ids], np.zeros(len(ids)), *columns)

    def _count(self, n_rows):
        while True:
            self.passes += 1
            for number, ids in enumerate(self._blocks):
                fresh = [self.segments[k] for k in ids]
                ends_pass = number == len(self._blocks) - 1
                step = SimpleNamespace(n_rows=n_rows, ends_pass=ends_pass, pass_=self.passes)
                yield SimpleNamespace(fresh=fresh, kept=[], step=step)

    def next(self, _w):
        return next(self._turns)

    def keep(self, resumable, sections) -> None:
        """Nothing goes on from here."""

    def going(self, segments):
        return segments

    def end_if_due(self) -> None:
        """It never is."""

    def note(self, row_id, score) -> None:
        assert row_id.shape == score.shape

    def count_unvisited(self, _step) -> int:
        return 0


@dataclass
class Session:
    """A solver on rows in memory: iterate over its passes."""

    name: str
    X: sparse.csr_matrix
    y: np.ndarray
    C: float = 1.0
    C_negative: float | None = None
    threads: int = 1
    max_cuts: int = 1000
    w: np.ndarray | None = None
    source: InMemory = field(init=False)

    def __iter__(self) -> Iterator[PassProgress]:
        self.w = np.zeros(self.X.shape[1]) if self.w is None else self.w
        self.source = InMemory(self.X, self.y)
        tasks, options = Tasks.single("hinge", self.C, self.C_negative), CuttingPlaneOptions(max_cuts=self.max_cuts)
        settings = SimpleNamespace(threads=self.threads, options=options, tasks=tasks, visited=UNMAPPED)
        return SOLVERS[self.name](settings, self.source, np.zeros((len(self.y), 1)), self.w[:, np.newaxis])


def until(session, relative_gap, most=2000) -> PassProgress:
    """The first pass with such a gap."""
    for progress in islice(session, most):
        if progress.relative_gap_bound <= relative_gap:
            return progress
    raise AssertionError(f"still {progress.relative_gap_bound} after {most} passes")


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
def test_iterations_are_those_of_plain_numpy(C, monkeypatch):
    monkeypatch.setattr("streamsvm.trainer.solvers.cutting_planes._INNER_SHARE", 1e-8)
    X, y = random_problem(80, 12, 6)
    dense = X.toarray().astype(float)
    found = [(p.primal_bound, p.dual_objective) for p in islice(Session("cpa", X, y, C), 12)]
    assert np.array(found) == pytest.approx(np.array([*reference.cpa(dense, y, C, 12)]), rel=2e-5)
    # The second pass of each iteration has its upper bound.
    found = [(p.primal_bound, p.dual_objective) for p in islice(Session("ocas", X, y, C), 24)][1::2]
    assert np.array(found) == pytest.approx(np.array([*reference.ocas(dense, y, C, 12)]), rel=2e-5)


@everywhere
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_bounds_close_around_the_optimum(name, C):
    X, y = random_problem()
    best = dcd(X, y, C, tol=1e-9)
    upper, lower = np.inf, 0.0
    session = Session(name, X, y, C)
    for progress in islice(session, 60):
        assert lower <= progress.dual_objective <= best.primal * (1 + 1e-12)
        # The changes of the rows along the line are kept in float32.
        assert best.dual * (1 - 1e-9) <= progress.primal_bound <= upper
        upper, lower = progress.primal_bound, progress.dual_objective
        # The w there is at any time has the objective that is told.
        if progress.pass_ % 7 < 2:
            assert primal_objective(X.astype(float), y, session.w, C) == pytest.approx(upper, rel=1e-6)
    done = until(Session(name, X, y, C), 1e-6 if name == "ocas" else 1e-3)
    assert done.primal_bound == pytest.approx(best.primal, rel=1e-6 if name == "ocas" else 1e-3)


@everywhere
def test_classes_have_weights_of_their_own(name):
    X, y = random_problem(noise=0.05)
    done = until(Session(name, X, y, 2.0, 0.25), 1e-5)
    heavy = np.where(y > 0, 8, 1)  # a row of weight 8 is 8 rows
    best = dcd(sparse.csr_matrix(X[np.repeat(np.arange(len(y)), heavy)]), np.repeat(y, heavy), 0.25, tol=1e-8)
    assert done.dual_objective <= best.primal * (1 + 1e-12)
    assert done.primal_bound >= best.dual * (1 - 1e-9)


@everywhere
def test_few_cuts_are_enough(name):
    X, y = random_problem()
    assert until(Session(name, X, y, 1.0, max_cuts=10), 1e-2, most=4000).pass_ > 10


@everywhere
def test_a_start_near_the_optimum_is_used(name):
    X, y = random_problem()
    best = dcd(X, y, 1.0, tol=1e-9)
    first = next(iter(Session(name, X, y, w=best.w.copy())))
    assert first.primal_bound == pytest.approx(best.primal, rel=1e-9)


@everywhere
def test_threads_change_rounding_at_most(name):
    X, y = random_problem()
    alone = list(islice(Session(name, X, y), 20))
    for _ in range(3):
        session = Session(name, X, y, threads=2)
        shared = list(islice(session, 20))
        assert [p.primal_bound for p in shared] == pytest.approx([p.primal_bound for p in alone], rel=1e-6)
    again = Session(name, X, y, threads=2)
    assert [p.primal_bound for p in islice(again, 20)] == [p.primal_bound for p in shared]
    assert again.w.tobytes() == session.w.tobytes()


@pytest.mark.parametrize(("name", "C", "passes"), [
    ("ocas", 0.01, 26), ("ocas", 0.1, 58), ("ocas", 1.0, 136), ("cpa", 0.01, 67), ("cpa", 0.1, 236),
])  # fmt: skip
def test_passes_over_a9a_to_the_gap_of_the_paper(name, C, passes):
    data.require("a9a")
    X, y = data.load_binary("a9a")
    session = Session(name, X, y, C)
    for progress in session:
        if progress.primal_bound - progress.dual_objective <= 1e-3 * C * len(y):
            break
    # An independent implementation took so many; the reduced problem may be solved more or less exactly.
    assert 0.7 * passes <= progress.pass_ <= 1.1 * passes
    assert session.source.passes == progress.pass_
    if C != 0.1:
        assert progress.dual_objective <= OPTIMA["a9a", C] <= progress.primal_bound * (1 + 1e-8)


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
