"""Solvers named after papers, held to what these print; the oddities of the printed rule for epsilon."""

from itertools import islice
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.solvers.streamsvm_paper import FILL, PickOptions, Picks
from streamsvm.trainer.updates.statistics import DualStatistics
from streamsvm.trainer.updates.variables import Variables
from tests.bench.papers.resident import Rows, run
from tests.bench.segments import make_segments
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import exact, solving
from tests.reference.avsf import avsf
from tests.reference.data import load_binary, require
from tests.reference.dcd import dcd, primal_objective
from tests.reference.optima import OPTIMA
from tests.reference.streamsvm import streamsvm

KAPPA = 4  # updates a row
SEEDS = range(3)
AS_MEANT = {"epsilon_decay": "sweep", "epsilon_reset": True, "epsilon_gradient": "projected"}


class OneSegment:
    """A cache that always holds the same rows: a Cursor, and its SharedState."""

    def __init__(self, rows: Segment) -> None:
        self.rows = rows
        self.shared = self
        self.checkpoints = SimpleNamespace(kept={})

    def read(self, _segment_id: int) -> Segment:
        return self.rows

    def note(self, row_id: np.ndarray, score: np.ndarray, is_visit: bool = True) -> None:
        """Nobody asks."""


def epsilons(passes: int, picks: int = 600, **options) -> list[float]:
    """Epsilon after each pass over 200 copies of x = 1 and one x = 50, which rests at G = 49 from the optimum on."""
    x, n = np.append(np.ones(200, np.float32), np.float32(50)), 201
    ids, ptr = np.arange(n, dtype=np.int32), np.arange(n + 1, dtype=np.int32)
    steps = OneSegment(plain_segment(ids, np.ones(n), x.astype(float) ** 2, ptr, np.zeros(n, np.int32), x))
    tasks = Tasks.single("hinge", 1.0)
    settings = SimpleNamespace(cache_rows=10.0 * n, options=PickOptions(**options), tasks=tasks, visited=UNMAPPED)
    alpha, w, rng = np.zeros(n), np.zeros(1), np.random.default_rng(0)
    statistics = DualStatistics(Variables(tasks, alpha[:, np.newaxis], w[:, np.newaxis]))
    rule = Picks(settings, steps, statistics, alpha, w)
    found = []
    for pass_ in range(1, passes + 1):
        step = SimpleNamespace(fresh=(1,), resident=(), pass_=pass_, rows=n, n_rows=n)
        rule.rows.take_in(step, rng)
        done = 0
        while done < picks:
            done += rule.visit_some(picks - done, rng)
        rule.end_pass()
        found.append(rule.epsilon)
    return found


def test_as_printed_a_row_that_is_given_up_does_not_raise_epsilon():
    """The row that comes to rest at G = 49 is given up, at any epsilon that rows of x = 1 can have made."""
    for start in (None, 9.0):
        assert max(epsilons(8, epsilon_start=start)) <= 9.0


def test_as_meant_epsilon_follows_the_violations_down():
    assert epsilons(8, **AS_MEANT)[-1] == pytest.approx(0, abs=1e-9)


def test_a_reset_alone_follows_the_rows_that_are_kept():
    assert epsilons(8, epsilon_reset=True)[-1] == pytest.approx(0, abs=1e-9)


def test_projected_gradients_alone_keep_the_largest_of_the_beginning():
    found = epsilons(8, epsilon_gradient="projected")
    assert found == [found[0]] * 8
    assert 0.9 <= found[0] <= 49


def test_a_pass_without_picks_leaves_epsilon():
    assert epsilons(3, picks=0, **AS_MEANT) == [np.inf] * 3


def both(directory, dataset, cache_bytes, C, passes, best):
    """P's relative difference from `best` and the rows unvisited, (seeds, passes, 2): ours, and the transcription's."""
    problem, data = exact(dataset, C=C), Dataset(dataset)

    def judged(w, unvisited):
        return primal_objective(problem.X, problem.y, w, C) / best - 1, unvisited

    ours, theirs = [], []
    for seed in SEEDS:
        settings = {"solver": "streamsvm_paper", "C": C, "updates_per_row": float(KAPPA), "tolerance": None}
        with solving(directory / f"run-{seed}", dataset, cache_bytes, 1.0, seed=seed, **settings) as session:
            ours.append([judged(session.w, each.rows_unvisited) for each in islice(session.passes, passes)])
            omega = int(FILL * session.settings.cache_rows)
        n_pieces = sum(len(data.pieces(block)) for block in range(len(data.manifest.blocks)))
        scans = streamsvm(problem.X, problem.y, C, omega, KAPPA, seed=seed, n_pieces=n_pieces)
        theirs.append([judged(scan.w, scan.unvisited) for scan in islice(scans, passes)])
    return np.array(ours), np.array(theirs)


def ratios(ours, theirs):
    """Geometric mean over the seeds of P's difference, ours over theirs, after each pass from the second on."""
    return np.exp(np.log(ours[:, 1:, 0]).mean(axis=0) - np.log(theirs[:, 1:, 0]).mean(axis=0))


def test_streamsvm_comes_as_near_as_its_transcription(tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem(2000, 300, 10))
    problem = exact(dataset)
    best = dcd(problem.X, problem.y, 1.0, tol=1e-9).dual
    ours, theirs = both(tmp_path, dataset, 1 << 17, 1.0, 6, best)
    assert ratios(ours, theirs).max() <= 2
    assert ours[:, :, 1].mean() <= 1.5 * theirs[:, :, 1].mean() + 40


@pytest.mark.slow
def test_streamsvm_comes_as_near_as_its_transcription_on_real_data(tmp_path):
    """C = 0.01 is left out: three seeds of the transcription differ by more than a factor of 2 from three others.

    Rows that had been given up once left unvisited ever after: the difference was 300 times the transcription's."""
    require("a9a")
    dataset = make_dataset(tmp_path / "data", *load_binary("a9a"))
    cache_bytes = Dataset(dataset).manifest.decoded_bytes // 10
    assert ratios(*both(tmp_path, dataset, cache_bytes, 1.0, 6, OPTIMA["a9a", 1.0])).max() <= 2


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_avsf_takes_as_many_steps_as_its_transcription(C):
    X, y = random_problem(3000, 300, 10)
    rows = Rows("random", make_segments(X, y, 1 << 14), X.shape)
    ours, theirs = [], []
    for seed in SEEDS:
        ended = run(rows, C, "avsf", 0.1, most_seconds=60.0, most_sweeps=2000, schedule="paper", seed=seed)
        assert ended.converged
        ours.append(ended.visits)
        theirs.append(list(avsf(X.astype(float), y, C, 0.1, seed))[-1].steps)
    assert median(ours) == pytest.approx(median(theirs), rel=0.25)
