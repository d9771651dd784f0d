"""The reader's sums against loops that spell the definitions out, and against what the trainer does."""

import numpy as np
import pytest

from reader.objective import Objective, margins
from storage.segment import Segment
from tests.contracts.kernels import columns
from trainer.kernels.dual import visit_rows
from trainer.problem import LOSSES, Problem

C = {1: 2.0, -1: 0.5}


@pytest.fixture(params=range(3))
def problem(request):
    """(rows, w, alpha) with alpha at 0, at C and between."""
    rows = Segment(*columns(seed=request.param))
    rng = np.random.default_rng(request.param)
    own = np.array([C[int(sign)] for sign in rows.y])
    alpha = own * rng.choice([0.0, 1.0, rng.random()], len(rows))
    return rows, rng.standard_normal(60) / 5, alpha


def dots(rows, w):
    return [
        sum(float(rows.values[j]) * w[rows.indices[j]] for j in range(rows.indptr[i], rows.indptr[i + 1]))
        for i in range(len(rows))
    ]


def loss_of(loss, m):
    return max(0.0, 1 - m) if loss == "hinge" else max(0.0, 1 - m) ** 2


def test_margins(problem):
    rows, w, _ = problem
    expected = [sign * dot for sign, dot in zip(rows.y, dots(rows, w), strict=True)]
    assert margins(rows, w) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_curvature(problem, loss):
    rows, w, alpha = problem
    objective, m = Objective(loss, C[1], C[-1]), margins(rows, w)
    losses = sum(C[int(sign)] * loss_of(loss, margin) for sign, margin in zip(rows.y, m, strict=True))
    assert objective.losses(rows.y, m) == pytest.approx(losses, rel=1e-12)
    squares = sum(a * a / (4 * C[int(sign)]) for sign, a in zip(rows.y, alpha, strict=True))
    assert objective.dual_curvature(rows.y, alpha) == pytest.approx(0 if loss == "hinge" else squares, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_projected_gradient_is_the_kernels(problem, loss):
    """M+ and M- of a row visited alone are its projected gradient."""
    rows, w, alpha = problem
    PG = Objective(loss, C[1], C[-1]).projected_gradient(rows.y, margins(rows, w), alpha)
    bounds = Problem(loss, C[1], C[-1]).bounds
    by_id = np.zeros(rows.row_id.max() + 1)
    by_id[rows.row_id] = alpha
    visited = []
    for k in range(len(rows)):
        columns_ = (rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values)
        score = np.zeros(len(rows), np.float32)
        M_plus, M_minus, *_ = visit_rows(
            np.array([k], np.int32), *columns_, *bounds, by_id.copy(), w.copy(), score, np.empty(1)
        )
        assert M_plus == M_minus
        visited.append(M_plus)
    assert visited == pytest.approx(PG.tolist(), rel=1e-9, abs=1e-12)
    assert np.any(PG == 0)
    assert np.any(PG > 0)
    assert np.any(PG < 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_gap_terms_add_up_to_the_gap(problem, loss):
    """Each is at least 0, and their sum is P(w) - D(alpha) for w = sum alpha_i y_i x_i."""
    rows, _, alpha = problem
    w = np.zeros(60)
    for k in range(len(rows)):
        for j in range(rows.indptr[k], rows.indptr[k + 1]):
            w[rows.indices[j]] += alpha[k] * rows.y[k] * float(rows.values[j])
    objective, m = Objective(loss, C[1], C[-1]), margins(rows, w)
    terms = []
    for a, sign, margin in zip(alpha, rows.y, m, strict=True):
        conjugate = 0 if loss == "hinge" else a * a / (4 * C[int(sign)])
        terms.append(C[int(sign)] * loss_of(loss, margin) + conjugate - a * (1 - margin))
    primal = w @ w / 2 + objective.losses(rows.y, m)
    dual = alpha.sum() - w @ w / 2 - objective.dual_curvature(rows.y, alpha)
    assert min(terms) >= -1e-12 * primal
    assert sum(terms) == pytest.approx(primal - dual, rel=1e-9)
