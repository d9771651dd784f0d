"""Lanes side by side: each comes to its own optimum, whatever runs beside it, and says so itself."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.certificate.kept_values import read_held_out
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.segment import CODE, Segment
from streamsvm.storage.run.state import FOLDS_FILE, WIDTHS
from streamsvm.trainer.kernels.hinge import Dual, Weights
from streamsvm.trainer.kernels.hinge_lanes import visit_lanes
from streamsvm.trainer.problem.row_encoder import fold_of
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.updates.statistics import DualStatistics, VisitSums, warm_statistics
from streamsvm.trainer.updates.variables import Variables
from tests.contracts.kernels import NO_LOCK, columns
from tests.contracts.objectives import updater_of
from tests.contracts.problems import make_dataset, random_problem, stored_rows
from tests.contracts.solver import Exact
from tests.trainer.test_sample_weights import weighted
from tests.training import train

SMALL_CACHE, ALL_ROWS = 1 << 17, 4 << 20
CS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
SOLVED = {"tolerance": None, "relative_gap": 1e-6, "max_passes": 50_000, "lanes": True}
WAYS = {
    "two loops": {"cache_bytes": SMALL_CACHE},
    "no screening": {"cache_bytes": SMALL_CACHE, "screening": None},
    "in the cache": {"cache_bytes": ALL_ROWS},
    "on disk": {"cache_bytes": SMALL_CACHE, "on_disk": True},
    "at any pace": {"cache_bytes": SMALL_CACHE, "on_disk": True, "pace": "adaptive"},
    "on threads": {"cache_bytes": SMALL_CACHE, "on_disk": True, "pace": "adaptive", "threads": 4},
}


def classes(n_classes: int, n_rows: int = 400, seed: int = 0):
    """(X, labels) of a problem of so many classes, some rows in the wrong one."""
    rng = np.random.default_rng(seed)
    X, _ = random_problem(n_rows, 60, 12, seed=seed)
    labels = np.argmax(X @ rng.standard_normal((60, n_classes)), axis=1)
    wrong = rng.random(n_rows) < 0.1
    return X, np.where(wrong, rng.integers(0, n_classes, n_rows), labels).astype(float)


def folds_in(run, n_rows: int, of: int, seed: int) -> np.ndarray:
    """The fold of each row of a run: as its file says, or by the hash where there is none."""
    file = run / FOLDS_FILE
    return np.fromfile(file, CODE) if file.exists() else fold_of(np.arange(n_rows), of, seed)


def stored(dataset):
    """X (n, width), labels (n,) and weights of a dataset's rows by their ids."""
    rows, _ = stored_rows(dataset)
    width = Dataset(dataset).manifest.width
    X = sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (len(rows), width))
    return X, rows.label, np.ones(len(rows)) if rows.weight is None else rows.weight


def check_lanes(found, X, ys, Cs, loss, weight=1.0, gap=1e-6):
    """Each is optimal, by the alpha and w there are, and says so."""
    assert len(found.results) == len(ys)
    for lane, (y, C, result) in enumerate(zip(ys, Cs, found.results, strict=True)):
        alpha, w, there = found.alpha[:, lane], found.w[:, lane], y != 0  # y is 0 where a row has no part
        problem = Exact(X[there], y[there], loss, np.broadcast_to(C * weight, len(y))[there])
        assert not alpha[~there].any()
        alpha = alpha[there]
        assert np.all((alpha >= 0) & (alpha <= problem.upper * (1 + 1e-12)))
        P, D = problem.primal(w), problem.dual(alpha)
        assert np.linalg.norm(w - problem.w_of(alpha)) <= 1e-9 * max(np.linalg.norm(w), 1e-9)
        assert gap * P * (1 + 1e-6) >= P - D
        certificate = result["certificate"]
        assert certificate["primal_objective"] == pytest.approx(P, rel=1e-9)
        assert certificate["dual_objective"] == pytest.approx(D, rel=1e-9)
        assert result["converged"]


@pytest.mark.parametrize(("way", "loss"), list(zip(WAYS, ["hinge", "squared_hinge"] * 3, strict=True)))
def test_values_of_C_side_by_side_come_to_their_optima(tmp_path, way, loss):
    X, y = random_problem(400, 60, 12)
    dataset = make_dataset(tmp_path / "data", X, y)
    settings = {**WAYS[way], **SOLVED, "loss": loss, "C": CS}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, y, _ = stored(dataset)
    check_lanes(found, X, [y] * len(CS), CS, loss)
    lines = found.passes[-1]["lanes"]
    assert [line["lane"] for line in lines] == list(range(len(CS)))
    assert all(line["dual_objective"] <= line["primal_bound"] * (1.0 + 1e-12) for line in lines)


@pytest.mark.parametrize(("n_classes", "way"), [(3, "two loops"), (5, "on disk"), (16, "two loops"), (16, "on disk")])
def test_classes_side_by_side(tmp_path, n_classes, way):
    X, labels = classes(n_classes)
    settings = {**WAYS[way], **SOLVED}
    dataset = make_dataset(tmp_path / "data", X, labels)
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, _ = stored(dataset)
    ys = [np.where(labels == label, 1.0, -1.0) for label in np.unique(labels)]
    check_lanes(found, X, ys, [1.0] * n_classes, "hinge")
    assert found.alpha.shape[1] == next(width for width in WIDTHS if width >= n_classes)


@pytest.mark.parametrize("way", ["two loops", "on disk", "in the cache"])
def test_folds_of_classes_with_weights(tmp_path, way):
    X, labels = classes(3)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.5], len(labels))
    dataset = weighted(tmp_path / "data", X, labels, weight)
    settings = {**WAYS[way], **SOLVED, "folds": 3, "C": 0.5, "loss": "squared_hinge", "seed": 7}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    X, labels, weight = stored(dataset)
    fold = folds_in(tmp_path / "run", len(labels), 3, 7)
    ys = []
    for label, left_out in product(np.unique(labels), [0, 1, 2, None]):
        y = np.where(labels == label, 1.0, -1.0)
        ys.append(y if left_out is None else np.where(fold == left_out, 0.0, y))
    check_lanes(found, X, ys, [0.5] * 12, "squared_hinge", weight)
    for lane, (label, left_out) in enumerate(product(np.unique(labels), [0, 1, 2, None])):
        if left_out is not None:
            ids, target, values = read_held_out(tmp_path / "run", len(labels), lane)
            assert np.array_equal(ids, np.flatnonzero(fold == left_out))
            assert np.array_equal(target > 0, labels[ids] == label)
            assert values == pytest.approx(X[ids] @ found.w[:, lane])


def test_a_visit_in_many_lanes_is_a_visit_in_each():
    """Of one class at several C, at a bound and free: as the kernel of one lane has it, gains and gradients too."""
    rows, n = columns(), len(columns().row_id)
    order, Cs = np.tile(np.arange(n, dtype=np.int32), 6), (0.05, 0.4, 2.0, 30.0)
    weight = np.random.default_rng(0).choice([0.5, 1.0, 3.0], n).astype(np.float32)
    for loss, row_weight in product(("hinge", "squared_hinge"), (None, weight)):
        alpha, w = np.zeros((2 * n, 4)), np.zeros((width_of(rows), 4))
        tasks = Tasks(loss, tuple(Task(0, None, C, 0.5 * C) for C in Cs), (1.0, -1.0))
        sums, score = VisitSums.none(4), np.empty(len(order), np.float32)
        own_rows = rows if row_weight is None else rows._replace(weight=row_weight)
        dual = Dual(alpha.reshape(-1), alpha.reshape(-1))
        visit_lanes(order, own_rows, tasks.table, dual, Weights(w.reshape(-1), NO_LOCK), score, sums)
        scores = []
        for lane, C in enumerate(Cs):
            own_alpha, own_w = np.zeros(2 * n), np.zeros(width_of(rows))
            found = updater_of(Tasks.single(loss, C, 0.5 * C), own_alpha, own_w).visit(Segment(*own_rows), order)
            assert alpha[:, lane] == pytest.approx(own_alpha, rel=1e-9, abs=1e-12)
            assert w[:, lane] == pytest.approx(own_w, rel=1e-9, abs=1e-12)
            assert [figure[lane] for figure in sums] == pytest.approx(np.ravel(found.sums), rel=1e-6, abs=1e-9)
            scores.append(found.score)
        assert score == pytest.approx(np.min(scores, axis=0), rel=1e-5, abs=1e-7)


def width_of(rows):
    return int(rows.indices.max()) + 1


@pytest.mark.parametrize("lanes", [2, 5, 9])
def test_lanes_that_are_done_are_packed_away_and_come_back(lanes):
    """What is trained is what was there, wherever it lies meanwhile."""
    rng = np.random.default_rng(lanes)
    tasks = Tasks("hinge", tuple(Task(0, None, 1.0 + k, 1.0) for k in range(lanes)))
    width = tasks.width
    alpha, w, room = rng.random((7, width)), rng.random((11, width)), np.zeros((11, width))
    before = alpha.copy(), w.copy()
    done = np.zeros(width, bool)
    found = Variables(tasks, alpha, w, lambda: room, lambda: done)
    found.begin()
    assert not found.settle(np.arange(width) > 0)
    assert found.w.shape[1] == 1 if width > 1 else width
    assert np.array_equal(found.w[:, 0], before[1][:, 0]) and np.array_equal(found.alpha[:, 0], before[0][:, 0])
    assert np.flatnonzero(found.is_trained).tolist() == [0]
    found.w += 1.0
    found.alpha += 2.0
    found.earlier_w[:] = -1.0  # momentum's: nobody else's
    assert np.array_equal(found.whole_w[:, 0], before[1][:, 0] + 1.0)
    assert np.array_equal(found.whole_w[:, 1:], before[1][:, 1:])
    assert found.settle(np.ones(width, bool))
    done[0] = True
    found.end()
    assert found.w is w and found.alpha is alpha
    for now, was, added in ((w, before[1], 1.0), (alpha, before[0], 2.0)):
        assert np.array_equal(now[:, 0], was[:, 0] + added) and np.array_equal(now[:, 1:], was[:, 1:])
    assert np.flatnonzero(found.is_trained).tolist() == list(range(1, lanes))
    assert not found.table.U[:, 0].any() and found.table.U[:, 1:lanes].all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_lanes_that_begin_with_an_alpha_are_counted_each_by_itself(loss):
    Cs = [0.5, 2.0, 8.0]
    tasks = Tasks(loss, tuple(Task(0, None, C, C) for C in Cs))
    alpha = np.zeros((40, tasks.width))
    alpha[:, 1:3] = Cs[1:] * np.random.default_rng(0).choice([0.0, 0.2, 0.7, 1.0], (40, 2))
    assert not warm_statistics(tasks, np.zeros_like(alpha))
    variables = Variables(tasks, alpha, np.zeros((3, tasks.width)))
    curvature, free = DualStatistics(variables, warm_statistics(tasks, alpha)).of_alpha
    for lane, C in enumerate(Cs):
        own = alpha[:, lane]
        is_below = own < (C if loss == "hinge" else np.inf)
        assert free[lane] == np.count_nonzero((own > 0) & is_below)
        assert curvature[lane] == pytest.approx(0.0 if loss == "hinge" else own @ own / (4 * C))
