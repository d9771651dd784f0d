"""Pegasos: the steps as the papers have them, and an objective that comes down."""

import math
from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from streamsvm.trainer.kernels.pegasos import pegasos_visits
from streamsvm.trainer.problem.tasks import Tasks
from tests.contracts.kernels import columns, signs
from tests.contracts.problems import a_dataset
from tests.contracts.solver import exact, solving
from tests.reference.dcd import dcd
from tests.training import train

C = 0.1
MODES = ["row", "block"]

dataset = a_dataset(500)


def test_a_block_is_one_projected_subgradient_step(tmp_path, dataset):
    problem = exact(dataset, C=C)
    n, lambda_ = len(problem.y), 1 / (C * len(problem.y))
    w = np.zeros(problem.X.shape[1])
    settings = {"solver": "pegasos", "update": "block", "C": C, "cache_bytes": 1 << 20}
    with solving(tmp_path / "run", dataset, **settings) as session:
        for k, _ in enumerate(islice(session.passes, 6)):
            eta = 1 / (lambda_ * (k + 2))
            violating = problem.y * (problem.X @ w) < 1
            w = (1 - eta * lambda_) * w + eta / n * (problem.X.T @ (problem.y * violating))
            w /= max(1.0, math.sqrt(lambda_) * np.linalg.norm(w))
            assert session.w == pytest.approx(w, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-199])
def test_a_row_is_one_projected_subgradient_step_however_small_the_scale_of_w(scale):
    """The scale falls below what is allowed and is taken into the weights."""
    rows = columns(seed=0)
    row_id, y = rows.row_id, signs(rows)
    dense = sparse.csr_matrix((rows.values.astype(float), rows.indices, rows.indptr), (len(y), 60)).toarray()
    w, lambda_, t = np.random.default_rng(0).standard_normal(60) / 10, 0.05, 3
    v, state = w / scale, np.array([scale, w @ w])
    order = np.random.default_rng(1).permutation(len(row_id)).astype(np.int32)
    pegasos_visits(order, rows, Tasks.single("hinge", 1.0, 0.5).table, lambda_, t, v, state)
    for k, i in enumerate(order):
        eta, violates = 1 / (lambda_ * (t + k + 2)), y[i] * (dense[i] @ w) < 1
        w = (1 - eta * lambda_) * w + violates * eta * (1.0 if y[i] > 0 else 0.5) * y[i] * dense[i]
        w /= max(1.0, math.sqrt(lambda_) * np.linalg.norm(w))
    assert state[0] * v == pytest.approx(w, rel=1e-9, abs=1e-12)
    assert state[1] == pytest.approx(w @ w, rel=1e-9)
    assert state[0] > 1e-200


@pytest.mark.parametrize(("update", "passes", "reached"), [("row", 30, 0.02), ("block", 60, 0.3)])
@pytest.mark.parametrize("cache_bytes", [None, 1 << 20])
def test_the_objective_comes_near_the_optimum(tmp_path, dataset, update, passes, reached, cache_bytes):
    problem = exact(dataset, C=C)
    best = dcd(problem.X, problem.y, C).primal
    with solving(tmp_path / "run", dataset, cache_bytes, solver="pegasos", update=update, C=C) as session:
        for progress in islice(session.passes, passes):
            assert progress.rows_unvisited == 0
            assert progress.primal_bound >= best * (1 - 1e-9)
            assert np.linalg.norm(session.w) <= math.sqrt(C * 500) * (1 + 1e-9)
        assert problem.primal(session.w) <= (1 + reached) * best


@pytest.mark.parametrize("update", MODES)
def test_what_is_not_known_is_not_claimed(tmp_path, dataset, update):
    settings = {"solver": "pegasos", "update": update, "max_passes": 3, "relative_gap": 0.5}
    found = train(tmp_path / "run", dataset, 1 << 20, **settings)
    certificate = found.result["certificate"]
    assert not found.result["converged"]
    assert certificate["primal_objective"] == pytest.approx(exact(dataset).primal(found.w), rel=1e-12)
    unknown = ("dual_objective", "relative_duality_gap", "gap", "m_plus", "m_minus", "w_error")
    assert all(math.isnan(certificate[name]) for name in unknown)


def test_no_scan_is_made_for_a_gap_that_nobody_will_know(tmp_path, dataset):
    bounds = {}
    for name, ends in {"default": {}, "never": {"tolerance": None}}.items():
        found = train(tmp_path / name, dataset, 1 << 20, solver="pegasos", max_passes=9, **ends)
        assert found.result["stop_reason"] == "max_passes"
        bounds[name] = [each["primal_bound"] for each in found.passes]
    assert bounds["default"] == bounds["never"]


@pytest.mark.parametrize("update", MODES)
def test_class_weights_scale_the_losses(tmp_path, dataset, update):
    problem, weights = exact(dataset, C=C, C_negative=C / 4), {"C": C, "C_negative": C / 4}
    best = train(tmp_path / "dcd", dataset, 1 << 20, solver="dcd", tolerance=1e-4, **weights)
    with solving(tmp_path / "run", dataset, 1 << 20, solver="pegasos", update=update, **weights) as session:
        list(islice(session.passes, 60))
        assert problem.primal(session.w) <= 1.05 * best.result["certificate"]["dual_objective"]
