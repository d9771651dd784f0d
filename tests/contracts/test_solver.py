"""Every solver keeps the contract, on ordinary problems and on odd ones."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.ingest.run import ingest
from streamsvm.trainer.problem.losses import SVM_LOSSES
from streamsvm.trainer.solvers import SOLVERS
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import (
    MODES,
    PLAIN,
    SMALLEST_CACHE,
    cache_for,
    check_certificate,
    check_run,
    check_solver,
    exact,
    is_fast,
    is_sound,
    name_of,
)
from tests.reference import data
from tests.reference.dcd import dcd
from tests.training import train


def costs(loss):
    """Values of C; without momentum regression needs thousands of passes where it is large."""
    return (0.01, 1.0, 100.0) if loss in SVM_LOSSES else (0.01, 1.0, 3.0)


def contracts():
    """Hinge with each C and each other loss with one, by every solver; one loss by each of its other ways."""
    for number, mode in enumerate(MODES):
        losses = SOLVERS[mode["solver"]].losses
        if mode not in PLAIN:
            yield mode, losses[number % len(losses)], 1.0
            continue
        for C in costs("hinge"):
            yield mode, "hinge", C
        for place, loss in enumerate(losses[1:], PLAIN.index(mode)):
            yield mode, loss, costs(loss)[place % 3]


def told(part):
    return name_of(part) if isinstance(part, dict) else getattr(part, "__name__", str(part))


@pytest.mark.parametrize(("mode", "loss", "C"), list(contracts()), ids=told)
def test_contract(mode, loss, C, tmp_path):
    check_solver(mode, loss, C, tmp_path)


def label_sorted():
    X, y = random_problem()
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def duplicates():
    X, y = random_problem(60)
    order = np.random.default_rng(1).integers(0, 60, 400)
    return X[order], y[order]


def with_zero_rows():
    X, y = random_problem()
    keep = (np.arange(300) % 5 != 0).astype(np.float32)
    X = sparse.csr_matrix(sparse.diags(keep) @ X, dtype=np.float32)
    X.eliminate_zeros()
    return X, y


def only_zero_rows():
    return sparse.csr_matrix((50, 1), dtype=np.float32), np.where(np.arange(50) % 3, 1.0, -1.0)


def one_feature():
    rng = np.random.default_rng(2)
    values = rng.standard_normal((3000, 1)).astype(np.float32)
    return sparse.csr_matrix(values), np.where(values[:, 0] + rng.standard_normal(3000) > 0, 1.0, -1.0)


def uneven_rows():
    """A few rows much longer than the others."""
    rng = np.random.default_rng(3)
    X = sparse.random(600, 400, 0.01, "lil", np.float32, rng)
    for row in range(0, 600, 40):
        X[row, :350] = rng.standard_normal(350).astype(np.float32) / 10
    return sparse.csr_matrix(X), rng.choice([-1.0, 1.0], 600)


def wholly_cached():
    return random_problem(100)


def one_segment():
    return random_problem(5)


def one_row():
    return random_problem(1)


ODD = [
    label_sorted, duplicates, with_zero_rows, only_zero_rows, one_feature, uneven_rows,
    wholly_cached, one_segment, one_row,
]  # fmt: skip


def odd_cases():
    """Each problem by every solver, with losses in turn; those that other ways of a solver might mistake, by them."""
    for number, mode in enumerate(MODES):
        if mode in PLAIN:
            yield from ((mode, SVM_LOSSES[(number + place) % 2], make) for place, make in enumerate(ODD))
        elif mode["solver"] == "streamsvm":
            yield from ((mode, "hinge", make) for make in (label_sorted, uneven_rows, one_row))
        else:
            yield mode, "hinge", (label_sorted, uneven_rows, one_row)[number % 3]


@pytest.mark.parametrize(("mode", "loss", "make"), list(odd_cases()), ids=told)
def test_odd_problems(mode, loss, make, tmp_path):
    dataset = make_dataset(tmp_path / "data", *make())
    settings = {**mode, "loss": loss, "positive": 1.0}
    check_run(tmp_path / "some passes", dataset, 6, **settings)
    goal = 1e-3 if is_fast(mode) else 3e-2
    ends = {"tolerance": None, "relative_gap": goal, "max_passes": 400}
    found = train(tmp_path / "run", dataset, cache_for(mode), updates_per_row=4, **ends, **settings)
    problem = exact(dataset, loss=loss)
    check_certificate(found, problem)
    if is_sound(mode):
        assert found.result["stop_reason"] == "relative_gap"
        best = dcd(problem.X, problem.y, 1.0, loss)
        assert found.result["certificate"]["dual_objective"] == pytest.approx(best.dual, rel=1.1 * goal)


@pytest.mark.parametrize("mode", [mode for mode in MODES if SOLVERS[mode["solver"]].feed == "steps"], ids=name_of)
@pytest.mark.parametrize("updates_per_row", [0.2, 50])
def test_few_and_many_updates(mode, updates_per_row, tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem())
    check_run(tmp_path / "run", dataset, 5, updates_per_row=updates_per_row, positive=1.0, **mode)


@pytest.mark.parametrize(
    ("mode", "loss"), [(mode, SVM_LOSSES[number % 2]) for number, mode in enumerate(MODES)], ids=told
)
def test_class_weights_and_bias(mode, loss, tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem())
    settings = {"loss": loss, "C": 2.0, "C_negative": 0.25, "bias": 0.7}
    check_run(tmp_path / "run", dataset, 8, positive=1.0, **mode, **settings)


def test_weights_and_bias_reach_the_right_optimum(tmp_path):
    """A row with twice the weight is a row that stands there twice; a bias is a feature."""
    X, y = random_problem(noise=0.3)
    y = y * np.where(np.arange(len(y)) % 3, 1, -1)
    double = np.flatnonzero(y < 0)
    twice = sparse.vstack([X, X[double]]), np.concatenate([y, y[double]])
    best = dcd(sparse.csr_matrix(sparse.hstack([twice[0], np.ones((len(twice[1]), 1))])), twice[1], 1.0, tol=1e-8)
    dataset = make_dataset(tmp_path / "data", X, y)
    found = train(
        tmp_path / "run", dataset, SMALLEST_CACHE, C=1.0, C_negative=2.0, bias=1.0,
        tolerance=None, relative_gap=1e-6, max_passes=1000, updates_per_row=8,
    )  # fmt: skip
    assert found.result["certificate"]["dual_objective"] == pytest.approx(best.dual, rel=1e-6)
    assert found.w[-1] == pytest.approx(best.w[-1], abs=2e-3)
    assert found.w[1:-1] == pytest.approx(best.w[:-1], abs=2e-3)


def test_free_rows_are_counted_by_their_own_bound(tmp_path):
    """With C = 2 for one class and 1 for the other, alpha = 1 is free in the first and not in the second."""
    dataset = make_dataset(tmp_path / "data", sparse.identity(40, np.float32, "csr"), np.tile([1.0, -1.0], 20))
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, C=2.0, C_negative=1.0)
    assert np.array_equal(found.alpha, np.ones(40))
    assert found.passes[-1]["free_rows"] == 20


def test_all_of_one_class(tmp_path):
    X, y = random_problem()
    dataset = make_dataset(tmp_path / "data", X, np.ones_like(y))
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, positive=1.0, tolerance=1e-3)
    assert found.result["converged"]
    assert found.result["certificate"]["gap"] <= 1e-3
    check_certificate(found, exact(dataset))


@pytest.mark.parametrize("index_base", [0, 1])
def test_rows_of_a_label_only_train(tmp_path, index_base):
    """There is nothing to learn, and that is no error."""
    dataset = make_dataset(tmp_path / "data", *only_zero_rows(), index_base=index_base)
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE)
    assert found.result["converged"]
    assert np.all(found.alpha == 1.0)
    assert not found.w.any()


@pytest.mark.parametrize("C", [1e-6, 1e6])
def test_extreme_C(tmp_path, C):
    dataset = make_dataset(tmp_path / "data", *random_problem(noise=0.0, n_rows=80))
    for loss in SVM_LOSSES:
        check_run(tmp_path / loss, dataset, 10, C=C, loss=loss, positive=1.0)


def test_wholly_cached_data_are_read_in_once(tmp_path):
    dataset = make_dataset(tmp_path / "data", *wholly_cached())
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=1e-6, max_passes=1000)
    assert found.passes[-1]["evicted_rows"] == 0
    assert found.passes[-1]["resident_rows"] == 100
    assert found.result["certificate"]["gap"] <= 1e-5


def test_a_small_cache_evicts(tmp_path):
    """What the contract is checked on does not fit."""
    dataset = make_dataset(tmp_path / "data", *random_problem())
    for solver in ("streamsvm", "streamsvm_paper"):
        found = train(tmp_path / solver, dataset, SMALLEST_CACHE, solver=solver, tolerance=None, max_passes=3)
        assert found.passes[-1]["evicted_rows"] > 100
        assert found.passes[-1]["resident_rows"] < 300


def test_a9a_reaches_its_optimum(tmp_path):
    data.require("a9a")
    ingest([data.text("a9a")], tmp_path / "data")
    found = train(tmp_path / "run", tmp_path / "data", 1 << 20, tolerance=None, relative_gap=2e-3, updates_per_row=4)
    assert found.passes[-1]["resident_rows"] < 10_000
    assert all(done["rows_unvisited"] == 0 for done in found.passes)
    assert found.result["converged"]
    optimum = 11433.8077
    certificate = found.result["certificate"]
    assert optimum * (1 - 2.1e-3) <= certificate["dual_objective"] <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= certificate["primal_objective"]
