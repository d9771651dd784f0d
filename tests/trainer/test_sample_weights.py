"""Rows that count differently: weights multiply C, row by row."""

from itertools import cycle

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC, LinearSVR

from streamsvm.reader.ingest.run import ingest
from streamsvm.service.jobs.fields.spec import KERNEL_SOLVERS
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import TRAINS_WEIGHTS
from tests.contracts.problems import make_dataset, random_problem, stored_rows, weighted_text
from tests.training import train

SOLVED = {"tolerance": None, "relative_gap": 1e-8, "max_passes": 50_000}
N_ROWS, C, EPSILON = 500, 0.5, 0.2
# Kernel machines are held in test_budgeted.py.
LINEAR = [name for name in TRAINS_WEIGHTS if name not in KERNEL_SOLVERS]


@pytest.fixture(scope="module")
def problem():
    return random_problem(N_ROWS, 60, 12)


def weighted(directory, X, y, weight):
    """The problem as a dataset whose rows have these weights (n_rows,)."""
    ingest([weighted_text(X, y, weight)], directory)
    return directory


def losses_and_norm(X, y, w, weight, loss):
    """The primal objective with weights, in plain numpy."""
    slack = np.maximum(0.0, 1.0 - y * (X @ w))
    each = {"hinge": slack, "squared_hinge": slack**2, "logistic": np.logaddexp(0.0, -y * (X @ w))}[loss]
    return w @ w / 2 + C * weight @ each


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("way", [{}, {"on_disk": True}, {"cache_bytes": 4 << 20}])
def test_the_optimum_is_that_of_scikit_learn(tmp_path, problem, loss, way):
    X, y = problem
    weight = np.random.default_rng(2).choice([0.0, 0.25, 1.0, 3.0, 20.0], N_ROWS)
    dataset = weighted(tmp_path / "data", X, y, weight)
    settings = {"cache_bytes": 1 << 17, **way, "loss": loss, "C": C, **SOLVED}
    found = train(tmp_path / "run", dataset, settings.pop("cache_bytes"), **settings)
    svm = LinearSVC(loss=loss, C=C, fit_intercept=False, dual=True, tol=1e-8, max_iter=10**6)
    svm.fit(X, y, sample_weight=np.maximum(weight, 1e-30))
    best = losses_and_norm(X, y, svm.coef_[0], weight, loss)
    w = found.w[1:]
    assert found.result["converged"]
    assert losses_and_norm(X, y, w, weight, loss) <= best * (1 + 1e-6)
    certificate = found.result["certificate"]
    assert certificate["primal_objective"] == pytest.approx(losses_and_norm(X, y, w, weight, loss), rel=1e-6)
    assert certificate["dual_objective"] <= best * (1 + 1e-6)


@pytest.mark.parametrize(
    ("solver", "loss"),
    [*zip(LINEAR, cycle(("hinge", "squared_hinge"))), ("dcd", "logistic"), ("streamsvm", "logistic")],
)
def test_a_row_of_weight_three_is_three_rows_and_one_of_weight_nought_none(tmp_path, problem, solver, loss):
    X, y = problem
    times = np.random.default_rng(1).integers(0, 4, N_ROWS)
    picked = np.repeat(np.arange(N_ROWS), times)
    settings = {"solver": solver, "loss": loss, "C": C, **SOLVED}
    if loss == "logistic":
        settings["relative_gap"] = 1e-7
    repeated = make_dataset(tmp_path / "repeated", sparse.csr_matrix(X[picked]), y[picked])
    found = [
        train(tmp_path / f"run{k}", dataset, 4 << 20, **settings).result
        for k, dataset in enumerate([weighted(tmp_path / "data", X, y, times), repeated])
    ]
    objectives = [result["certificate"]["primal_objective"] for result in found]
    assert all(result["converged"] for result in found)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)


@pytest.fixture(scope="module")
def numbers():
    X, _ = random_problem(200, 20, 8, seed=4)
    rng = np.random.default_rng(5)
    return X, np.float32(X @ rng.standard_normal(20) + 0.3 * rng.standard_normal(200)).astype(float)


def objective_of_numbers(X, y, w, weight, loss):
    excess = np.maximum(0.0, np.abs(X.astype(float) @ w - y) - EPSILON)
    return w @ w / 2 + C * weight @ (excess if loss == "epsilon_insensitive" else excess**2)


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("solver", ["dcd", "streamsvm"])
def test_the_optimum_of_regression_is_that_of_scikit_learn(tmp_path, numbers, loss, solver):
    X, y = numbers
    weight = np.random.default_rng(2).choice([0.0, 0.25, 1.0, 3.0], len(y))
    dataset = weighted(tmp_path / "data", X, y, weight)
    found = train(tmp_path / "run", dataset, 4 << 20, solver=solver, loss=loss, C=C, epsilon=EPSILON, **SOLVED)
    svm = LinearSVR(loss=loss, C=C, epsilon=EPSILON, fit_intercept=False, dual=True, tol=1e-8, max_iter=10**6)
    there = weight > 0
    svm.fit(X[there], y[there], sample_weight=weight[there])
    best = objective_of_numbers(X, y, svm.coef_, weight, loss)
    plain = svm.fit(X, y).coef_
    assert objective_of_numbers(X, y, plain, weight, loss) > best * 1.001
    own = objective_of_numbers(X, y, found.w[1:], weight, loss)
    certificate = found.result["certificate"]
    assert found.result["converged"]
    assert own == pytest.approx(best, rel=1e-6)
    assert certificate["primal_objective"] == pytest.approx(own, rel=1e-9)
    assert certificate["dual_objective"] == pytest.approx(best, rel=1e-6)
    assert certificate["dual_objective"] <= best * (1 + 1e-9)
    weight = stored_rows(dataset)[0].weight
    assert not found.alpha[weight == 0].any() and found.alpha[weight == 3].any()
    if loss == "epsilon_insensitive":
        assert (np.abs(found.alpha) <= C * weight).all() and (np.abs(found.alpha) > C).any()
