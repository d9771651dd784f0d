"""Compares the certificate's sums with loops that follow the definitions, and with the trainer's kernels."""

import math

import numpy as np
import pytest

from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.losses import LOSSES, SVM_LOSSES
from streamsvm.trainer.problem.objective import dots_of
from tests.contracts.kernels import BOXES, columns, signs, visit
from tests.contracts.objectives import PlainObjective

C, EPSILON = {1: 2.0, -1: 0.5}, 0.7
REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive")


def objective_of(loss):
    return PlainObjective(loss, C[1], C[1] if loss in REGRESSION else C[-1], EPSILON)


def y_of(rows):
    """The y of a loss: targets in regression, else signs."""
    return rows.target if len(rows.target) else signs(rows)


def margins(objective, rows, w):
    return objective.m(y_of(rows), dots_of(rows, w[:, np.newaxis])[:, 0])


def C_of(loss, y):
    """The C_i of each row; in regression all are equal."""
    return C[1] if loss in REGRESSION or y > 0 else C[-1]


def loss_of(loss, m):
    tube = max(0.0, abs(m) - EPSILON)
    return {
        "hinge": max(0.0, 1 - m),
        "squared_hinge": max(0.0, 1 - m) ** 2,
        "logistic": np.logaddexp(0.0, -m),
        "epsilon_insensitive": tube,
        "squared_epsilon_insensitive": tube**2,
    }[loss]


def dual_of(loss, C, y, a):
    """d(a), -inf outside the box."""
    inside = abs(a) <= C if loss in REGRESSION else 0 <= a <= C
    if loss.startswith("squared") and (loss in REGRESSION or a >= 0):
        inside = True
    if not inside:
        return -math.inf
    return {
        "hinge": lambda: a,
        "squared_hinge": lambda: a - a * a / (4 * C),
        "logistic": lambda: -sum(s * math.log(s / C) for s in (a, C - a) if s > 0),
        "epsilon_insensitive": lambda: y * a - EPSILON * abs(a),
        "squared_epsilon_insensitive": lambda: y * a - EPSILON * abs(a) - a * a / (4 * C),
    }[loss]()


@pytest.fixture(params=[(loss, seed) for loss in LOSSES for seed in range(3)], ids=str)
def problem(request):
    """(loss, rows, w, alpha) with alpha at its bounds and between."""
    loss, seed = request.param
    rows = columns(seed=seed)
    rng = np.random.default_rng(seed)
    y = signs(rows)
    if loss in REGRESSION:
        y = rng.standard_normal(len(y)).astype(np.float32)
        rows = rows._replace(target=y, class_code=np.zeros_like(rows.class_code))
    shares = [0.0, 1.0, 0.3, rng.random(), *([-1.0, -0.4] if loss in REGRESSION else [])]
    alpha = np.array([C_of(loss, sign) for sign in y]) * rng.choice(shares, len(y))
    return loss, Segment(*rows), rng.standard_normal(60) / 5, alpha


def dots(rows, w):
    return [
        sum(float(rows.values[j]) * w[rows.indices[j]] for j in range(rows.indptr[i], rows.indptr[i + 1]))
        for i in range(len(rows))
    ]


def test_margins_and_residuals(problem):
    loss, rows, w, _ = problem
    pairs = zip(y_of(rows).tolist(), dots(rows, w), strict=True)
    expected = [dot - y if loss in REGRESSION else y * dot for y, dot in pairs]
    assert margins(objective_of(loss), rows, w) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_losses_and_dual_terms(problem):
    loss, rows, w, alpha = problem
    objective = objective_of(loss)
    m = margins(objective, rows, w)
    losses = sum(C_of(loss, y) * loss_of(loss, one) for y, one in zip(y_of(rows), m, strict=True))
    assert objective.losses(y_of(rows), m) == pytest.approx(losses, rel=1e-12)
    dual = sum(dual_of(loss, C_of(loss, y), float(y), a) for y, a in zip(y_of(rows), alpha, strict=True))
    assert objective.dual(y_of(rows), alpha) == pytest.approx(dual, rel=1e-12)


def test_projected_gradient_is_the_slope_of_the_dual_inside_its_box(problem):
    """It is the slope of -D where alpha_i may move, and 0 where -D can only rise or is flat."""
    loss, rows, w, alpha = problem
    objective = objective_of(loss)
    m = margins(objective, rows, w)
    PG, h = objective.projected_gradient(y_of(rows), m, alpha), 1e-6
    for k, a in enumerate(alpha):
        y = float(y_of(rows)[k])
        # To first order, the change of w by a step of alpha_i does not change m.
        slope = m[k] + y if loss in REGRESSION else m[k]
        up, down = (
            (slope * step - dual_of(loss, C_of(loss, y), y, a + step) + dual_of(loss, C_of(loss, y), y, a)) / h
            for step in (h, -h)
        )
        if loss == "logistic" and a in (0.0, C_of(loss, y)):
            # The slope is infinite here: any finite number of that sign is accepted.
            assert (PG[k] < 0) == (a == 0.0)
            continue
        expected = up if up < -1e-4 else -down if down < -1e-4 else 0.0
        assert PG[k] == pytest.approx(expected, abs=1e-4)
    assert np.any(PG > 0)
    assert np.any(PG < 0)
    assert np.any(PG == 0) or loss == "logistic"


@pytest.mark.parametrize("loss", SVM_LOSSES)
def test_projected_gradient_is_the_kernels(loss):
    """For a row that is visited alone, M+ and M- are its projected gradient."""
    rows = Segment(*columns())
    rng = np.random.default_rng(0)
    alpha, w = (
        np.array([C[int(sign)] for sign in y_of(rows)]) * rng.choice([0.0, 1.0, 0.5], len(rows)),
        rng.random(60) / 5,
    )
    objective = objective_of(loss)
    PG = objective.projected_gradient(y_of(rows), margins(objective, rows, w), alpha)
    box = BOXES[loss]
    by_id = np.zeros(rows.row_id.max() + 1)
    by_id[rows.row_id] = alpha
    visited = []
    for k in range(len(rows)):
        M_plus, M_minus, *_ = visit(np.array([k], np.int32), rows.columns, box, by_id.copy(), w.copy(), before=by_id)
        assert M_plus == M_minus
        visited.append(M_plus)
    assert visited == pytest.approx(PG.tolist(), rel=1e-9, abs=1e-12)


def test_gap_terms_add_up_to_the_gap(problem):
    """Each term is at least 0; their sum is P(w) - D(alpha) for w = sum_i alpha_i y_i x_i."""
    loss, rows, _, alpha = problem
    objective = objective_of(loss)
    coefficients = objective.coefficients(y_of(rows), alpha)
    assert coefficients == pytest.approx(alpha if loss in REGRESSION else alpha * y_of(rows))
    w = np.zeros(60)
    for k in range(len(rows)):
        for j in range(rows.indptr[k], rows.indptr[k + 1]):
            w[rows.indices[j]] += coefficients[k] * float(rows.values[j])
    m = margins(objective, rows, w)
    terms = []
    for a, y, one, dot in zip(alpha, y_of(rows).tolist(), m, dots(rows, w), strict=True):
        both = C_of(loss, y) * loss_of(loss, one) - dual_of(loss, C_of(loss, y), y, a)
        terms.append(both + a * (dot if loss in REGRESSION else one))
    primal = w @ w / 2 + objective.losses(y_of(rows), m)
    dual = objective.dual(y_of(rows), alpha) - w @ w / 2
    assert min(terms) >= -1e-12 * primal
    assert sum(terms) == pytest.approx(primal - dual, rel=1e-9)
