"""Steps of logistic regression and of regression against a search of the objective, and visits against steps."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from streamsvm.storage.rows.segment import CODE, Columns, Segment
from streamsvm.trainer.kernels.hinge import Dual, Weights
from streamsvm.trainer.kernels.logistic_and_regression import (
    logistic_gradient,
    logistic_step,
    negative_entropy,
    regression_gradient,
    regression_step,
    visit_logistic_or_regression,
)
from streamsvm.trainer.problem.losses import REGRESSION, make_loss
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.updates.statistics import VisitSums
from tests.contracts.kernels import NO_LOCK, columns

C_POSITIVE, C_NEGATIVE, EPSILON = 2.0, 0.5, 0.3


def of_logistic(a, old, m, Q, C):
    """The dual objective to be minimised, less what other rows add."""
    return Q * (a - old) ** 2 / 2 + m * (a - old) + negative_entropy(a, C)


def of_regression(b, old, G, D, Q, epsilon):
    r = G - D * old
    return Q * (b - old) ** 2 / 2 + r * (b - old) + epsilon * abs(b) + D * b * b / 2


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("Q", [0.0, 1e-3, 1.0, 1e4])
def test_logistic_step_finds_the_least_value(C, Q):
    shares = (0.0, 1e-12, 0.2, 0.5, 0.9, 1 - 1e-12, 1.0)
    for m, share in itertools.product((-50.0, -3.0, -1e-3, 0.0, 0.7, 20.0, 45.0), shares):
        a = share * C
        new = logistic_step(a, m, Q, C)
        assert 0 <= new <= C
        # Where it ends the slope is 0, or that of a bound.
        assert abs(logistic_gradient(new, m + Q * (new - a), C)) <= 1e-5 * (1 + abs(m) + Q * C)
        assert of_logistic(new, a, m, Q, C) <= of_logistic(a, a, m, Q, C) + 1e-14 * C
        search = {"bounds": (0, C), "method": "bounded", "options": {"xatol": 1e-9 * C}}
        best = minimize_scalar(of_logistic, args=(a, m, Q, C), **search)
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


def tasks_of(loss, C_positive=C_POSITIVE, C_negative=C_NEGATIVE):
    return Tasks.single(loss, C_positive, C_positive if loss in REGRESSION else C_negative, EPSILON)


class Problem:
    """The objective of one task on some rows, with vectors."""

    def __init__(self, loss, rows, tasks=None):
        self._terms = (tasks or tasks_of(loss)).terms(Segment(*rows)).of_task(0)
        self._loss = make_loss(loss, EPSILON)

    def __getattr__(self, name):
        return partial(getattr(self._loss, name), self._terms)


def state(loss, seed):
    """Columns, and alpha with rows at their bounds and between."""
    rows = columns(seed=seed)
    rng = np.random.default_rng(seed)
    n = len(rows.row_id)
    if loss in REGRESSION:
        target, codes = rng.standard_normal(n).astype(np.float32), np.zeros_like(rows.class_code)
        rows = rows._replace(target=target, class_code=codes)
    C = np.where(rows.class_code == 0, C_POSITIVE, C_NEGATIVE)
    alpha = np.zeros(2 * n)
    alpha[rows.row_id] = C * rng.choice([0.0, 1.0, 0.4, *([-1.0, -0.2] if loss in REGRESSION else [])], n)
    return rows, alpha, rng.standard_normal(60) / 5


def tube_of(loss):
    return EPSILON if loss in REGRESSION else -1.0


def visit(loss, order, rows, alpha, w, rest=None, tasks=None):
    """(M+, M-, taken, freed) of one round; `rest` is filled if it is there."""
    M_plus, M_minus, taken, freed, *_ = (float(each[0]) for each in sums_of(loss, order, rows, alpha, w, rest, tasks))
    return M_plus, M_minus, taken, freed


def sums_of(loss, order, rows, alpha, w, rest=None, tasks=None, before=None, score=None, lock=NO_LOCK):
    """Sums of one round, in all tasks."""
    table = (tasks or tasks_of(loss)).table
    sums, rest = VisitSums.none(table.sign.shape[1]), np.empty(0, np.float32) if rest is None else rest
    score = np.empty(len(order), np.float32) if score is None else score
    dual = Dual(alpha.reshape(-1), (alpha if before is None else before).reshape(-1))
    visit_logistic_or_regression(
        order, rows, table, tube_of(loss), dual, Weights(w.reshape(-1), lock), score, rest, sums
    )
    return sums


LOSSES = ("logistic", *REGRESSION)


def only(rows, which):
    """Some of the rows, whose values stay where they are: `which` is a slice."""
    columns_ = (column[which] if len(column) else column for column in rows[:4])
    indptr = rows.indptr[which.start : which.stop + 1]
    optional = (column[which] if len(column) else column for column in rows[7:])
    return Columns(*columns_, indptr, rows.indices, rows.values, *optional)


def dots_of(rows, w):
    bounds = itertools.pairwise(rows.indptr.tolist())
    return np.array([float(rows.values[a:b].astype(float) @ w[rows.indices[a:b]]) for a, b in bounds])


def dual(loss, rows, alpha):
    """(D(alpha), w)"""
    problem, own, w = Problem(loss, rows), alpha[rows.row_id], np.zeros(60)
    coefficients = problem.coefficients(own)
    for k in range(len(rows.row_id)):
        for j in range(rows.indptr[k], rows.indptr[k + 1]):
            w[rows.indices[j]] += coefficients[k] * float(rows.values[j])
    return problem.dual(own) - w @ w / 2, w


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_visited_alone_has_the_objectives_gradient(loss, seed):
    rows, alpha, w = state(loss, seed)
    problem = Problem(loss, rows)
    PG = problem.projected_gradient(problem.m(dots_of(rows, w)), alpha[rows.row_id])
    for k in range(len(rows.row_id)):
        one = only(rows, slice(k, k + 1))
        M_plus, M_minus, *_ = visit(loss, np.zeros(1, np.int32), one, alpha.copy(), w.copy())
        assert max(M_plus, 0) + min(M_minus, 0) == pytest.approx(PG[k], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_rounds_raise_the_dual_to_the_primal_and_count(loss, seed):
    rows, alpha, _ = state(loss, seed)
    before, w = dual(loss, rows, alpha)
    order, taken, free = np.arange(len(rows.row_id), dtype=np.int32), 0.0, 0
    tasks, problem = tasks_of(loss), Problem(loss, rows)
    upper = tasks.table.U[rows.class_code, 0]
    start, own = alpha.copy(), rows.row_id
    for turn in range(3000):
        order = np.random.default_rng(turn).permutation(order)
        M_plus, M_minus, change, freed = visit(loss, order, rows, alpha, w)
        taken, free = taken + change, free + freed
        now, v = dual(loss, rows, alpha)
        assert now >= before - 1e-12 * abs(before)
        before = now
        if M_plus - M_minus < 1e-9:
            break
    assert np.linalg.norm(v - w) <= 1e-10 * np.linalg.norm(w)
    assert np.all(np.abs(alpha[own]) <= upper)
    assert np.all(alpha[own] >= 0) or loss in REGRESSION
    assert alpha[own].sum() - w @ w / 2 - (taken + start[own].sum() - problem.dual(start[own])) == (
        pytest.approx(now, rel=1e-9)
    )
    frees = [np.count_nonzero((np.abs(a[own]) > 0) & (np.abs(a[own]) < upper)) for a in (start, alpha)]
    assert free == frees[1] - frees[0]
    primal = w @ w / 2 + problem.losses(problem.m(dots_of(rows, w)))
    assert primal == pytest.approx(now, rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=40)
@given(st.sets(st.integers(0, 39)), st.integers(0, 5))
def test_rows_left_out_are_as_rows_that_are_not_there(loss, left_out, seed):
    rows, alpha, w = state(loss, seed)
    n = len(rows.row_id)
    held = np.isin(np.arange(n), list(left_out))
    alpha[rows.row_id[held]] = 0.0
    rows = rows._replace(fold=held.astype(CODE))
    tasks = replace(tasks_of(loss), n_folds=2)
    tasks = replace(tasks, each=(replace(tasks.each[0], fold=1),))
    problem, every = Problem(loss, rows, tasks), Problem(loss, rows._replace(fold=np.zeros_like(rows.fold)))
    dots, own = np.linspace(-1, 1, n), alpha[rows.row_id]
    found = []
    for order in (np.arange(n, dtype=np.int32), np.flatnonzero(~held).astype(np.int32)):
        a, v, rest = alpha.copy(), w.copy(), np.zeros(len(order), np.float32)
        M_plus, M_minus, *counted = visit(loss, order, rows, a, v, rest, tasks)
        found.append((max(M_plus, 0), min(M_minus, 0), counted, a.tolist(), v.tolist()))
        assert loss == "logistic" or len(order) < n or (np.isinf(rest[held]).all() and np.isfinite(rest[~held]).all())
    assert found[0] == found[1]
    PG, all_PG = (each.projected_gradient(each.m(dots), own) for each in (problem, every))
    assert (PG[held] == 0).all() and (PG[~held] == all_PG[~held]).all()
    np.testing.assert_array_equal(problem.projected(np.where(held, 5.0, own))[held], 0.0)
    if not held.any():
        assert problem.losses(problem.m(dots)) == every.losses(every.m(dots))
    if held.all():
        assert problem.losses(problem.m(dots)) == problem.dual(own) == 0


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_some_weight_is_one_of_so_many_times_the_C(loss, seed):
    """To the kernel and to the objective."""
    rows, alpha, w = state(loss, seed)
    weight = np.random.default_rng(seed).choice([0.25, 1.0, 3.0], len(rows.row_id)).astype(np.float32)
    order = np.arange(len(rows.row_id), dtype=np.int32)
    alpha[rows.row_id] *= weight
    weighed = rows._replace(weight=weight)
    problem = Problem(loss, weighed)
    dots, own = np.linspace(-1, 1, len(weight)), alpha[rows.row_id]
    assert (problem.projected(own) == own).all()
    M_plus, M_minus, rest = [], [], np.empty(len(order), np.float32)
    a, v = alpha.copy(), w.copy()
    sums = np.zeros(2)
    for k in order:  # row by row, as rows of one C are
        tasks, one = tasks_of(loss, float(C_POSITIVE * weight[k])), slice(k, k + 1)
        single, plain = np.zeros(1, np.float32), Problem(loss, only(rows, one), tasks)
        found = visit(loss, order[one], rows, a, v, single, tasks)
        rest[k] = single[0]
        M_plus.append(found[0])
        M_minus.append(found[1])
        m = plain.m(dots[one])
        sums += plain.losses(m), plain.dual(own[one])
        PG = problem.projected_gradient(problem.m(dots), own)[one]
        assert pytest.approx(plain.projected_gradient(m, own[one]), rel=1e-12) == PG
        assert problem.projected(9 + own)[one] == pytest.approx(plain.projected(9 + own[one]), rel=1e-12)
    together, u, rests = alpha.copy(), w.copy(), np.empty(len(order), np.float32)
    found = visit(loss, order, weighed, together, u, rests)
    assert found[:2] == pytest.approx((max(M_plus), min(M_minus)), rel=1e-9)
    assert together == pytest.approx(a, rel=1e-9, abs=1e-12)
    assert u == pytest.approx(v, rel=1e-9, abs=1e-12)
    assert rests == pytest.approx(rest, rel=1e-5, abs=1e-6)
    assert (problem.losses(problem.m(dots)), problem.dual(own)) == pytest.approx(tuple(sums), rel=1e-9)


@pytest.mark.parametrize("loss", REGRESSION)
def test_a_row_rests_by_as_much_as_its_gradient_may_change_without_a_step(loss):
    rows, alpha, w = state(loss, 0)
    table = tasks_of(loss).table
    U, D, epsilon = table.U[0, 0], table.D[0, 0], EPSILON
    kinds = set()
    for k, i in enumerate(rows.row_id):
        a, v, rest = alpha.copy(), w * 1e-2, np.zeros(1, np.float32)
        places = slice(rows.indptr[k], rows.indptr[k + 1])
        G = float(rows.values[places].astype(float) @ v[rows.indices[places]]) - float(rows.target[k]) + D * a[i]
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


def lanes_of(loss):
    """Five tasks of one loss on the rows of `state`, each with its own C and fold."""
    pairs = ((0.5, 1), (2.0, None), (1.0, 0), (0.1, None), (30.0, None))
    each = tuple(Task(0, fold, C, C if loss in REGRESSION else 0.5 * C) for C, fold in pairs)
    return Tasks(loss, each, () if loss in REGRESSION else (1.0, -1.0), n_folds=2, epsilon=EPSILON)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_is_visited_in_each_task_as_if_it_were_alone(loss):
    rows, _, _ = state(loss, 1)
    rng = np.random.default_rng(1)
    n = len(rows.row_id)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n).astype(np.float32)
    rows = rows._replace(fold=rng.integers(0, 2, n).astype(CODE), weight=weight)
    tasks, lock = lanes_of(loss), np.zeros(1, np.int64)
    alpha, w = np.zeros((2 * n, tasks.width)), np.zeros((60, tasks.width))
    own = [(np.zeros(2 * n), np.zeros(60)) for _ in tasks.each]
    for sweep in range(3):
        order, score = rng.permutation(n).astype(np.int32), np.empty(n, np.float32)
        sums = sums_of(loss, order, rows, alpha, w, tasks=tasks, score=score, lock=lock)
        scores = []
        for lane, task in enumerate(tasks.each):
            single, its = replace(tasks, each=(task,)), np.empty(n, np.float32)
            alone = sums_of(loss, order, rows, *own[lane], tasks=single, score=its)
            scores.append(its)
            for name, mine, others in zip(VisitSums._fields, alone, sums, strict=True):
                assert others[lane] == pytest.approx(mine[0], rel=1e-9, abs=1e-12), (sweep, lane, name)
            assert alpha[:, lane] == pytest.approx(own[lane][0], rel=1e-9, abs=1e-12)
            assert w[:, lane] == pytest.approx(own[lane][1], rel=1e-9, abs=1e-12)
        assert score == pytest.approx(np.min(scores, axis=0), rel=1e-6, abs=1e-7)
    assert np.isinf(score[weight[order] == 0.0]).all() and np.isfinite(score[weight[order] > 0.0]).all()
    assert not alpha[:, len(tasks.each) :].any() and not lock.any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_terms_of_rows_at_one_w_add_up_to_the_gap(loss, seed):
    """Each row is visited alone at the w of alpha; a score that is not of rest is minus the row's term."""
    rows, alpha, _ = state(loss, seed)
    D, w = dual(loss, rows, alpha)
    problem, total = Problem(loss, rows), 0.0
    for k in range(len(rows.row_id)):
        score = np.empty(1, np.float32)
        one, rest = only(rows, slice(k, k + 1)), np.empty(1, np.float32)
        sums = sums_of(loss, np.zeros(1, np.int32), one, alpha.copy(), w.copy(), rest, score=score)
        assert sums.gap[0] >= 0.0
        assert score[0] == pytest.approx(rest[0] if rest[0] >= 0.0 else -sums.gap[0], rel=1e-6)
        total += sums.gap[0]
    primal = w @ w / 2 + problem.losses(problem.m(dots_of(rows, w)))
    assert total == pytest.approx(primal - D, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_rows_that_momentum_has_moved_come_back_into_their_box(loss, share):
    """And what is counted is from before it."""
    rows, alpha, _ = state(loss, 4)
    own, rng = rows.row_id, np.random.default_rng(4)
    upper = tasks_of(loss).table.U[rows.class_code, 0]
    before = alpha.copy()
    D, _ = dual(loss, rows, before)
    alpha[own] += share * np.where(np.isinf(upper), 2.0, upper) * rng.choice([-1.0, 1.0], len(own))
    if loss == "squared_epsilon_insensitive":
        assert np.any(alpha[own] * before[own] < 0)
    else:
        assert np.any(np.abs(alpha[own]) > upper)
    problem, w = Problem(loss, rows), np.zeros(60)
    for k in range(len(own)):
        places = slice(rows.indptr[k], rows.indptr[k + 1])
        w[rows.indices[places]] += problem.coefficients(alpha[own])[k] * rows.values[places].astype(float)
    sums = sums_of(loss, rng.permutation(len(own)).astype(np.int32), rows, alpha, w, before=before)
    now, v = dual(loss, rows, alpha)
    assert np.linalg.norm(v - w) <= 1e-10 * np.linalg.norm(w)
    assert np.all(np.abs(alpha[own]) <= upper) and (loss in REGRESSION or np.all(alpha[own] >= 0.0))
    _, w_before = dual(loss, rows, before)
    taken = alpha[own].sum() - v @ v / 2 - now - (before[own].sum() - w_before @ w_before / 2 - D)
    assert sums.curvature[0] == pytest.approx(taken, rel=1e-9)
    frees = [np.count_nonzero((np.abs(a[own]) > 0) & (np.abs(a[own]) < upper)) for a in (before, alpha)]
    assert sums.freed[0] == frees[1] - frees[0]
