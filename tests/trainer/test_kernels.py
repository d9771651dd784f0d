"""The trainer's kernels against the formulas above them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.trainer.kernels.order import permutation
from streamsvm.trainer.solvers.streamsvm_paper_kernel import Arrivals, Ways, paper_visits
from tests.contracts.kernels import BOXES, all_listed, columns, notes, signs, visit


def naive_step(x, y, U, D, a, w):
    """(new alpha, new w, G, PG) of one coordinate step."""
    m = y * (x @ w)
    G = m - 1 + D * a
    PG = 0.0 if (a == 0 and G >= 0) or (a == U and G <= 0) else G
    H = x @ x + D
    new = a if abs(PG) <= 1e-12 else (np.clip(a - G / H, 0, U) if H > 0 else U)
    return new, w + (new - a) * y * x, G, PG


def gap_term(loss, C, a, m):
    """gap_i of the design's loss table: the row's loss, its part of the dual, and a m."""
    if loss == "hinge":
        return C * max(0.0, 1 - m) - a + a * m
    return C * max(0.0, 1 - m) ** 2 + a * a / (4 * C) - a + a * m


def setting(loss, seed):
    """Columns, dense rows, the box, U, D and C by row, and a state with rows at 0, at U and between."""
    rows = columns(seed=seed)
    row_id, y, indptr, indices, values = rows.row_id, signs(rows), rows.indptr, rows.indices, rows.values
    n = len(row_id)
    dense = np.zeros((n, 60))
    for i in range(n):
        dense[i, indices[indptr[i] : indptr[i + 1]]] = values[indptr[i] : indptr[i + 1]]
    box = BOXES[loss]
    U, D = np.where(y > 0, box.U_positive, box.U_negative), np.where(y > 0, box.D_positive, box.D_negative)
    C = U if loss == "hinge" else 1 / (2 * D)
    rng = np.random.default_rng(seed)
    alpha = np.zeros(2 * n)
    free = np.where(np.isinf(U), 3.0, U) * rng.random(n)
    alpha[row_id] = np.choose(rng.integers(0, 3, n), [np.zeros(n), free, np.where(np.isinf(U), free, U)])
    return rows, dense, box, U, D, C, alpha, rng.standard_normal(60) / 5


def count_free(alpha, U):
    return np.count_nonzero((alpha > 0) & (alpha < U))


@pytest.mark.parametrize("loss", BOXES)
@pytest.mark.parametrize("seed", range(5))
def test_visit_is_one_coordinate_step_a_row(loss, seed):
    rows, dense, box, U, D, _, alpha, w = setting(loss, seed)
    row_id, y = rows.row_id, signs(rows)
    order = np.random.default_rng(seed).permutation(len(row_id)).astype(np.int32)
    a, v, gradients, duals = alpha.copy(), w.copy(), [], []
    for k in order:
        i = row_id[k]
        duals.append(a[row_id].sum() - v @ v / 2 - np.sum(D * a[row_id] ** 2) / 2)
        a[i], v, _, PG = naive_step(dense[k], float(y[k]), U[k], D[k], a[i], v)
        gradients.append(PG)
    duals.append(a[row_id].sum() - v @ v / 2 - np.sum(D * a[row_id] ** 2) / 2)
    curvature = np.sum(D * (a[row_id] ** 2 - alpha[row_id] ** 2)) / 2
    free, told = count_free(alpha[row_id], U), notes(len(order))
    M_plus, M_minus, found, freed = visit(order, rows, box, alpha, w, told=told)
    assert told.gain == pytest.approx(np.diff(duals), rel=1e-9, abs=1e-9 * np.abs(duals).max())
    assert freed == count_free(alpha[row_id], U) - free
    assert alpha == pytest.approx(a, rel=1e-9, abs=1e-12)
    assert w == pytest.approx(v, rel=1e-9, abs=1e-11)
    assert (M_plus, M_minus) == pytest.approx((max(gradients), min(gradients)), rel=1e-9)
    assert found == pytest.approx(curvature, rel=1e-9, abs=1e-12)
    assert not np.isnan(told.score).any()


@pytest.mark.parametrize("loss", BOXES)
@pytest.mark.parametrize("seed", range(5))
def test_score_is_minus_the_gap_term_or_the_distance_beyond_the_margin(loss, seed):
    rows, dense, box, U, D, C, alpha, w = setting(loss, seed)
    row_id, y = rows.row_id, signs(rows)
    kinds = set()
    for k in range(len(row_id)):
        a, m = alpha[row_id[k]], float(y[k]) * (dense[k] @ w)
        _, _, G, PG = naive_step(dense[k], float(y[k]), U[k], D[k], a, w)
        rests = PG == 0 and a in (0.0, U[k])
        kinds.add(rests)
        told = notes(1)
        visit(np.array([k], np.int32), rows, box, alpha.copy(), w.copy(), before=alpha, told=told)
        (score,), _, (rest,) = told
        expected = abs(G) if rests else -gap_term(loss, C[k], a, m)
        assert score == pytest.approx(expected, rel=1e-6, abs=1e-6)
        # Rows at rest leave before all others.
        assert (score >= 0) == rests or expected == pytest.approx(0, abs=1e-6)
        assert rest == pytest.approx(abs(G) if rests else -1.0, rel=1e-6, abs=1e-6)
    assert kinds == {True, False}


def test_no_rows_no_gradients():
    rows, _, box, *_, alpha, w = setting("hinge", 0)
    before = alpha.copy(), w.copy()
    found = visit(np.empty(0, np.int32), rows, box, alpha, w)
    assert found == (-np.inf, np.inf, 0.0, 0)
    assert np.array_equal(alpha, before[0])
    assert np.array_equal(w, before[1])


@pytest.mark.parametrize("loss", BOXES)
def test_clipped_alpha_is_exactly_at_its_bound(loss):
    rows, _, box, U, _, _, alpha, w = setting(loss, 3)
    order = np.arange(len(rows[0]), dtype=np.int32)
    for _ in range(20):
        visit(order, rows, box, alpha, w)
    own = alpha[rows[0]]
    assert np.all((own >= 0) & (own <= U))
    assert np.count_nonzero(own == 0) > 2
    if loss == "hinge":
        assert np.count_nonzero(own == U) > 2
        assert own[-1] == U[-1]  # the row without features


@pytest.mark.parametrize("loss", BOXES)
@pytest.mark.parametrize("per_sweep", [False, True])
@pytest.mark.parametrize("projected", [False, True])
def test_printed_rule_as_printed_and_as_meant(loss, per_sweep, projected):
    rows, dense, box, U, D, _, alpha, w = setting(loss, 1)
    row_id, y = rows.row_id, signs(rows)
    order = np.random.default_rng(0).integers(0, len(row_id), 300, dtype=np.int32)
    capacity, beta, n = 38.0, 0.9, 40.0
    listing, rule = all_listed(row_id, len(alpha)), np.array([np.inf, 0.0, 0.0, float(len(row_id)), 0.0])
    a, v, given_up = alpha.copy(), w.copy(), set()
    eps, eps_new, picks, inside, waited, gradients = np.inf, 0.0, 0, len(row_id), 0, []
    for k in order:
        i = row_id[k]
        if i in given_up:
            continue
        if picks >= n:
            eps, picks = eps_new, 0
        picks += 1
        waited += 1
        if inside > 0.9 * capacity and (waited >= inside or not per_sweep):
            eps, waited = eps * beta, 0
        new, new_v, G, PG = naive_step(dense[k], float(y[k]), U[k], D[k], a[i], v)
        if (a[i] == 0 and eps < G) or (a[i] == U[k] and -eps > G):
            given_up.add(i)
            inside -= 1
            continue
        eps_new = max(eps_new, abs(PG if projected else G))
        gradients.append(PG)
        a[i], v = new, new_v
    ways = Ways(capacity, beta, n, per_sweep, projected)
    arrivals = Arrivals(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32), np.array([0, 0, 0, 1]))
    made, M_plus, M_minus, _, _ = paper_visits(order, rows, box.table, ways, arrivals, listing, alpha, w, rule)
    assert made == len(gradients) + len(given_up)
    assert given_up
    assert {i for i in row_id.tolist() if listing.slot[i] < 0} == {int(i) for i in given_up}
    assert alpha == pytest.approx(a, rel=1e-6, abs=1e-9)
    assert w == pytest.approx(v, rel=1e-6, abs=1e-9)
    assert (M_plus, M_minus) == pytest.approx((max(gradients), min(gradients)), rel=1e-6)
    assert rule.tolist() == pytest.approx([eps, eps_new, picks, inside, waited], rel=1e-6)


@given(st.integers(1, 2**32 - 1), st.integers(0, 300))
def test_permutation_is_one(seed, n):
    order = np.full(n, -1, np.int32)
    permutation(seed, order)
    assert sorted(order.tolist()) == list(range(n))


def test_permutations_are_about_uniform():
    counts, draws = np.zeros((6, 6)), 12_000
    orders = set()
    rng = np.random.default_rng(0)
    order = np.empty(6, np.int32)
    for seed in rng.integers(1, 1 << 32, draws).tolist():
        permutation(seed, order)
        counts[np.arange(6), order] += 1
        orders.add(tuple(order.tolist()))
    # Each number in each place a sixth of the time: within five standard deviations.
    assert np.abs(counts - draws / 6).max() < 5 * np.sqrt(draws * 5 / 36)
    assert len(orders) == 720
