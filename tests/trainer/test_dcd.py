"""Dual coordinate descent with every loss: the optimum of LIBLINEAR, and a certificate that says so."""

import numpy as np
import pytest
from liblinear import liblinear as binding
from liblinear import liblinearutil
from scipy import sparse

from streamsvm.reader.ingest.run import ingest
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.problem.objective import half_squares
from streamsvm.trainer.rows import blocks
from streamsvm.trainer.sweeps.active import ActiveRows
from tests.contracts.objectives import PlainObjective
from tests.contracts.problems import libsvm_text, make_dataset, random_problem
from tests.reference import data
from tests.training import train

# -s of LIBLINEAR's own dual solvers.
NUMBERS = {"logistic": 7, "epsilon_insensitive": 13, "squared_epsilon_insensitive": 12}
EPSILON = 0.2


def regression_problem(n_rows=500, n_features=30, seed=0):
    """(X, y): a linear function and noise, scaled so that a good part of the rows lies inside the tube."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n_rows, n_features, 0.3, "csr", np.float32, rng)
    y = X @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n_rows) + 0.5
    return X, y.astype(np.float32).astype(float)


def problem(loss):
    """One (X, y) that suits the loss."""
    return regression_problem() if loss in REGRESSION else random_problem(500, 30, 8)


def primal(loss, X, y, w, C) -> float:
    objective = PlainObjective(loss, C, C, EPSILON)
    return float(w @ w / 2 + objective.losses(y, objective.m(y, X @ w)))


def liblinear_optimum(loss, X, y, C) -> float:
    """P at the weights that LIBLINEAR finds, run to a small tolerance."""
    parameter = binding.parameter(f"-s {NUMBERS[loss]} -c {C!r} -p {EPSILON} -e 1e-9 -q")
    model = liblinearutil.train(
        binding.problem(np.asarray(y, float), sparse.csr_matrix(X, dtype=float, copy=True), -1), parameter
    )
    w = np.ctypeslib.as_array(model.w, (X.shape[1],)).copy()
    sign = -1 if loss == "logistic" and model.get_labels()[0] < 0 else 1
    return primal(loss, X.astype(float), y, sign * w, C)


def check(loss, dataset, run, optimum, **settings):
    """Ours is at the optimum, as its certificate says, and that is LIBLINEAR's.

    optimum  of a LIBLINEAR that may have given up after its 1,000 rounds, a millionth above it or two: how near it
             comes depends on the random numbers that the process has drawn before
    """
    if loss in REGRESSION:
        settings["epsilon"] = EPSILON
    ends = {"tolerance": None, "relative_gap": 4e-7, "max_passes": 20_000}
    found = train(run, dataset, 24 << 20, solver="dcd", loss=loss, **ends, **settings)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["relative_duality_gap"] <= 4e-7
    assert certificate["primal_objective"] <= optimum * (1 + 1e-6)
    assert optimum * (1 - 5e-6) <= certificate["dual_objective"] <= optimum * (1 + 1e-9)
    assert certificate["w_error"] <= 1e-10
    return found


@pytest.mark.parametrize("loss", NUMBERS)
def test_the_optimum_of_a9a_is_liblinears(loss, tmp_path):
    """Regression takes its labels for numbers."""
    data.require("a9a")
    X, y = data.load_binary("a9a")
    X, y = X[:8000], y[:8000]
    ingest([libsvm_text(X, y)], tmp_path / "data")
    check(loss, tmp_path / "data", tmp_path / "run", liblinear_optimum(loss, X, y, 0.1), C=0.1)


@pytest.mark.parametrize("loss", ["hinge", *NUMBERS])
@pytest.mark.parametrize("tolerance", [None, 0.3, 1e-6])
def test_rounds_go_on_until_the_relative_gap_is_small_enough(loss, tolerance, tmp_path):
    """Whether M+ - M- is small long before, long after, or not asked for."""
    dataset, ends = make_dataset(tmp_path / "data", *problem(loss)), {"tolerance": tolerance, "relative_gap": 1e-4}
    found = train(tmp_path / "run", dataset, 3 << 20, solver="dcd", loss=loss, max_passes=5000, **ends)
    assert found.result["stop_reason"] == "relative_gap"
    certificate = found.result["certificate"]
    assert certificate["relative_duality_gap"] <= 1e-4 and certificate["gap"] <= (tolerance or np.inf)


def test_few_rounds_are_followed_by_a_scan_of_all_rows(tmp_path, monkeypatch):
    scans: list[float] = []
    monkeypatch.setattr(blocks, "half_squares", lambda *given: scans.append(half_squares(*given)) or scans[-1])
    dataset = make_dataset(tmp_path / "data", *random_problem(500, 30, 8))
    found = train(tmp_path / "run", dataset, 3 << 20, solver="dcd", relative_gap=1e-8, max_passes=5000)
    assert found.result["stop_reason"] == "relative_gap"
    n_rounds, visits = len(found.passes), found.passes[-1]["updates"]
    rounds_of_all = sum(each["rows_unvisited"] == 0 for each in found.passes)
    assert len(scans) <= rounds_of_all + visits / (4 * 500) + np.log2(n_rounds) + 2 < n_rounds


def test_shrinking_changes_the_way_and_not_the_end(tmp_path, monkeypatch):
    """With thresholds that shrink nothing the optimum is the same, and more rows are visited for it."""
    X, y = random_problem(800, 60, 12)
    dataset = make_dataset(tmp_path / "data", X, y)
    settings = {"solver": "dcd", "C": 1.0, "tolerance": 1e-6, "max_passes": 20_000}
    found = train(tmp_path / "shrunk", dataset, 3 << 20, **settings)
    round_ = ActiveRows.round

    def whole(rows, rng):
        gap = round_(rows, rng)
        rows.reactivate()
        return gap

    monkeypatch.setattr(ActiveRows, "round", whole)
    other = train(tmp_path / "whole", dataset, 3 << 20, **settings)
    best = other.result["certificate"]["dual_objective"]
    assert found.result["certificate"]["dual_objective"] == pytest.approx(best, rel=1e-9)
    assert max(done["rows_unvisited"] for done in found.passes) > 0
    assert max(done["rows_unvisited"] for done in other.passes) == 0
