"""Steps of logistic regression and of regression against a search of the objective, and visits against steps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from streamsvm.storage.rows.segment import Columns, Segment
from streamsvm.trainer.kernels.logistic import logistic_gradient, logistic_step, negative_entropy, visit_logistic
from streamsvm.trainer.kernels.regression import Tube, regression_gradient, regression_step, visit_regression
from streamsvm.trainer.problem.objective import REGRESSION, make_objective
from streamsvm.trainer.problem.regression_losses import NO_WEIGHT
from tests.contracts.kernels import columns

C_POSITIVE, C_NEGATIVE, EPSILON = 2.0, 0.5, 0.3


def of_logistic(a, old, m, Q, C):
    """The dual objective to be minimised, less what other rows add."""
    return Q * (a - old) ** 2 / 2 + m * (a - old) + negative_entropy(a, C)


def of_regression(b, old, G, D, Q, epsilon):
    r = G - D * old
    return Q * (b - old) ** 2 / 2 + r * (b - old) + epsilon * abs(b) + D * b * b / 2


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("m", [-50.0, -3.0, -1e-3, 0.0, 0.7, 20.0, 45.0])
@pytest.mark.parametrize("share", [0.0, 1e-12, 0.2, 0.5, 0.9, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("Q", [0.0, 1e-3, 1.0, 1e4])
def test_logistic_step_finds_the_least_value(C, m, share, Q):
    a = share * C
    new = logistic_step(a, m, Q, C)
    assert 0 <= new <= C
    # Where it ends the slope is 0, or that of a bound.
    assert abs(logistic_gradient(new, m + Q * (new - a), C)) <= 1e-5 * (1 + abs(m) + Q * C)
    assert of_logistic(new, a, m, Q, C) <= of_logistic(a, a, m, Q, C) + 1e-14 * C
    best = minimize_scalar(of_logistic, bounds=(0, C), args=(a, m, Q, C), method="bounded", options={"xatol": 1e-9 * C})
    assert of_logistic(new, a, m, Q, C) <= best.fun + 2e-10 * C * (1 + abs(m) + Q * C)


@given(
    st.floats(-1, 1), st.floats(-5, 5), st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 1e-3, 2.0]),
    st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1.0, 1e-2]),
)  # fmt: skip
def test_regression_step_finds_the_least_value(share, r, D, Q, epsilon, U):
    beta = share * U
    G, bound = r + D * beta, U if D == 0 else math.inf
    if Q + D == 0:
        # Flat, or rising for ever: an objective without curvature has its least value at a bound.
        new = regression_step(beta, G, 0.0, bound, epsilon)
        assert new in (-U, 0.0, U)
    else:
        new = regression_step(beta, G, Q + D, bound, epsilon)
    assert abs(new) <= bound
    wide = 20 * (1 + abs(r)) / max(Q + D, 1e-3) if D else U
    best = min(
        (minimize_scalar(of_regression, bounds=b, args=(beta, G, D, Q, epsilon), method="bounded").fun
         for b in ((-wide, 0), (0, wide))),
    )  # fmt: skip
    least = of_regression(new, beta, G, D, Q, epsilon)
    assert least <= best + 1e-6 * (1 + abs(best))
    slope = regression_gradient(new, G + (Q + D) * (new - beta), bound, epsilon)
    assert abs(slope) <= 1e-9 * (1 + abs(r)) * (1 + Q)


def state(loss, seed):
    """Columns, the objective, and alpha with rows at their bounds and between."""
    row_id, y, *rest = columns(seed=seed)
    rng = np.random.default_rng(seed)
    n = len(row_id)
    if loss in REGRESSION:
        y = rng.standard_normal(n).astype(np.float32)
    C = np.where((y > 0) | (loss in REGRESSION), C_POSITIVE, C_NEGATIVE)
    alpha = np.zeros(2 * n)
    alpha[row_id] = C * rng.choice([0.0, 1.0, 0.4, *([-1.0, -0.2] if loss in REGRESSION else [])], n)
    return (
        Columns(row_id, y, *rest),
        make_objective(loss, C_POSITIVE, C_NEGATIVE, EPSILON),
        alpha,
        rng.standard_normal(60) / 5,
    )


def visit(loss, order, rows, alpha, w, rest=None, weight=None):
    """(M+, M-, taken, freed) of one round; `rest` is filled if there are bounds."""
    if loss == "logistic":
        return visit_logistic(order, rows, C_POSITIVE, C_NEGATIVE, alpha, w)
    rest = np.empty(len(order), np.float32) if rest is None else rest
    return visit_regression(order, rows, tube(loss, weight), alpha, w, rest)


def tube(loss, weight=None):
    U, D = (C_POSITIVE, 0.0) if loss == "epsilon_insensitive" else (np.inf, 1 / (2 * C_POSITIVE))
    return Tube(U, D, EPSILON, NO_WEIGHT if weight is None else weight)


LOSSES = ("logistic", *REGRESSION)


def dual(objective, rows, alpha):
    """(D(alpha), w)"""
    row_id, y, _, indptr, indices, values = rows
    coefficients, w = objective.coefficients(y, alpha[row_id]), np.zeros(60)
    for k in range(len(row_id)):
        for j in range(indptr[k], indptr[k + 1]):
            w[indices[j]] += coefficients[k] * float(values[j])
    return objective.dual(y, alpha[row_id]) - w @ w / 2, w


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_visited_alone_has_the_objectives_gradient(loss, seed):
    rows, objective, alpha, w = state(loss, seed)
    for k in range(len(rows[0])):
        start, end = rows[3][k], rows[3][k + 1]
        dot = float(rows[5][start:end].astype(float) @ w[rows[4][start:end]])
        y = rows[1][k : k + 1]
        PG = objective.projected_gradient(y, objective.m(y, np.array([dot])), alpha[rows[0][k : k + 1]])[0]
        one = Columns(*(column[k : k + 1] for column in rows[:3]), rows[3][k : k + 2], *rows[4:])
        M_plus, M_minus, *_ = visit(loss, np.zeros(1, np.int32), one, alpha.copy(), w.copy())
        assert max(M_plus, 0) + min(M_minus, 0) == pytest.approx(PG, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_rounds_raise_the_dual_to_the_primal_and_count(loss, seed):
    rows, objective, alpha, _ = state(loss, seed)
    before, w = dual(objective, rows, alpha)
    order, taken, free = np.arange(len(rows[0]), dtype=np.int32), 0.0, 0
    upper = np.where(rows[1] > 0, *objective.upper)
    start, own = alpha.copy(), rows[0]
    for turn in range(3000):
        order = np.random.default_rng(turn).permutation(order)
        M_plus, M_minus, change, freed = visit(loss, order, rows, alpha, w)
        taken, free = taken + change, free + freed
        now, v = dual(objective, rows, alpha)
        assert now >= before - 1e-12 * abs(before)
        before = now
        if M_plus - M_minus < 1e-9:
            break
    assert np.linalg.norm(v - w) <= 1e-10 * np.linalg.norm(w)
    assert np.all(np.abs(alpha[own]) <= upper)
    assert np.all(alpha[own] >= 0) or loss in REGRESSION
    assert alpha[own].sum() - w @ w / 2 - (taken + start[own].sum() - objective.dual(rows[1], start[own])) == (
        pytest.approx(now, rel=1e-9)
    )
    frees = [np.count_nonzero((np.abs(a[own]) > 0) & (np.abs(a[own]) < upper)) for a in (start, alpha)]
    assert free == frees[1] - frees[0]
    dots = [float(rows[5][a:b].astype(float) @ w[rows[4][a:b]]) for a, b in zip(rows[3][:-1], rows[3][1:], strict=True)]
    primal = w @ w / 2 + objective.losses(rows[1], objective.m(rows[1], np.array(dots)))
    assert primal == pytest.approx(now, rel=1e-7)


@pytest.mark.parametrize("loss", REGRESSION)
@given(st.sets(st.integers(0, 39)), st.integers(0, 5))
def test_rows_left_out_are_as_rows_that_are_not_there(loss, left_out, seed):
    rows, objective, alpha, w = state(loss, seed)
    n = len(rows.row_id)
    held = np.isin(np.arange(n), list(left_out))
    alpha[rows.row_id[held]] = 0.0
    y, dots, own = np.where(held, np.float32(np.nan), rows.y), np.linspace(-1, 1, n), alpha[rows.row_id]
    found = []
    for kept, order in ((slice(None), np.arange(n, dtype=np.int32)), (~held, np.flatnonzero(~held).astype(np.int32))):
        a, v, rest = alpha.copy(), w.copy(), np.zeros(len(order), np.float32)
        M_plus, M_minus, *counted = visit(loss, order, rows._replace(y=y), a, v, rest)
        m = objective.m(y[kept], dots[kept])
        PG = objective.projected_gradient(y[kept], m, own[kept])
        sums = objective.losses(y[kept], m), objective.dual(y[kept], own[kept]), max(PG.max(initial=0), 0), PG.sum()
        found.append((max(M_plus, 0), min(M_minus, 0), counted, a.tolist(), v.tolist(), sums))
        assert len(order) < n or (np.isinf(rest[held]).all() and np.isfinite(rest[~held]).all())
    assert found[0][:5] == found[1][:5]
    assert found[0][5] == pytest.approx(found[1][5], rel=1e-12)
    np.testing.assert_array_equal(objective.projected(y, np.where(held, 5.0, own))[held], 0.0)


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_some_weight_is_one_of_so_many_times_the_C(loss, seed):
    """To the kernel and to the objective."""
    rows, objective, alpha, w = state(loss, seed)
    by_id = np.zeros(len(alpha), np.float32)
    by_id[rows.row_id] = np.random.default_rng(seed).choice([0.25, 1.0, 3.0], len(rows.row_id))
    kinds, order, own = by_id[rows.row_id], np.arange(len(rows.row_id), dtype=np.int32), alpha[rows.row_id]
    alpha *= by_id
    weighed = make_objective(loss, C_POSITIVE, C_NEGATIVE, EPSILON, by_id)
    y, dots, own = weighed.targets(Segment(*rows)), np.linspace(-1, 1, len(kinds)), alpha[rows.row_id]
    assert (weighed.projected(y, own) == own).all()
    M_plus, M_minus, rest = [], [], np.empty(len(order), np.float32)
    a, v = alpha.copy(), w.copy()
    for k in order:  # row by row, as rows of one C are
        C = float(C_POSITIVE * kinds[k])
        plain, one = make_objective(loss, C, C, EPSILON), slice(k, k + 1)
        bounds = (C, 0.0) if loss == "epsilon_insensitive" else (np.inf, 1 / (2 * C))
        single = np.zeros(1, np.float32)
        found = visit_regression(order[one], rows, Tube(*bounds, EPSILON, NO_WEIGHT), a, v, single)
        rest[k] = single[0]
        M_plus.append(found[0])
        M_minus.append(found[1])
        m = dots[one] - rows.y[one]
        for name, arguments in (
            ("losses", (m,)), ("dual", (own[one],)), ("projected_gradient", (m, own[one])),
            ("projected", (9 + own[one],)),
        ):  # fmt: skip
            expected = getattr(plain, name)(rows.y[one], *arguments)
            assert getattr(weighed, name)(y[one], *arguments) == pytest.approx(expected, rel=1e-12)
    together, u, rests = alpha.copy(), w.copy(), np.empty(len(order), np.float32)
    found = visit(loss, order, rows, together, u, rests, by_id)
    assert found[:2] == pytest.approx((max(M_plus), min(M_minus)), rel=1e-9)
    assert together == pytest.approx(a, rel=1e-9, abs=1e-12)
    assert u == pytest.approx(v, rel=1e-9, abs=1e-12)
    assert rests == pytest.approx(rest, rel=1e-5, abs=1e-6)
    assert weighed.losses(y, dots - rows.y) == pytest.approx(
        sum(
            float(k) * objective.losses(rows.y[i : i + 1], dots[i : i + 1] - rows.y[i : i + 1])
            for i, k in enumerate(kinds)
        )
    )


@pytest.mark.parametrize("loss", REGRESSION)
def test_a_row_rests_by_as_much_as_its_gradient_may_change_without_a_step(loss):
    rows, _, alpha, w = state(loss, 0)
    U, D, epsilon, _ = tube(loss)
    kinds = set()
    for k, i in enumerate(rows.row_id):
        a, v, rest = alpha.copy(), w * 1e-2, np.zeros(1, np.float32)
        places = slice(rows.indptr[k], rows.indptr[k + 1])
        G = float(rows.values[places].astype(float) @ v[rows.indices[places]]) - float(rows.y[k]) + D * a[i]
        M_plus, M_minus, *_ = visit(loss, np.array([k], np.int32), rows, a, v, rest)
        rests = M_plus == M_minus == 0.0 and (a[i] == 0.0 or abs(a[i]) == U)
        kinds.add(rests)
        assert (rest[0] >= 0) == rests
        if rests:
            assert a[i] == alpha[i]
            # At the edge of what it bears there is no slope; beyond it there is one.
            for change in (-rest[0], rest[0]):
                towards = [regression_gradient(a[i], G + share * float(change), U, epsilon) for share in (0.999, 1.001)]
                assert towards[0] == 0.0
                kinds.add(towards[1] != 0.0)
    assert kinds == {True, False}
