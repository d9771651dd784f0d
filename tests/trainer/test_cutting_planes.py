"""CPA and OCAS against plain numpy, against the optimum, and against the paper's figures."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.rows.csr import EMPTY
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.solvers.cutting_planes import Options, cpa, ocas
from streamsvm.trainer.updates.progress import Progress
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import random_problem
from tests.reference import cutting_planes as reference
from tests.reference import data
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
                step = SimpleNamespace(n_rows=n_rows)
                yield SimpleNamespace(fresh=fresh, kept=[], ends_pass=ends_pass, pass_=self.passes, step=step)

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

    def count_unvisited(self, _block) -> int:
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

    def __iter__(self) -> Iterator[Progress]:
        self.w = np.zeros(self.X.shape[1]) if self.w is None else self.w
        self.source = InMemory(self.X, self.y)
        tasks, options = Tasks.single("hinge", self.C, self.C_negative), Options(max_cuts=self.max_cuts)
        settings = SimpleNamespace(threads=self.threads, options=options, tasks=tasks, visited=UNMAPPED)
        return SOLVERS[self.name](settings, self.source, np.zeros((len(self.y), 1)), self.w[:, np.newaxis])


def until(session, relative_gap, most=2000) -> Progress:
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
