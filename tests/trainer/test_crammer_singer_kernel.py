"""The kernel of several classes at once against formulas spelled out, against LIBLINEAR's -s 4, and what must hold."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from streamsvm.storage.rows.segment import CODE, NO_COLUMN, Columns
from streamsvm.trainer.kernels.crammer_singer import best_room, visit_crammer_singer
from streamsvm.trainer.kernels.hinge import Dual, Weights, move_on
from streamsvm.trainer.problem.losses import crammer_singer
from streamsvm.trainer.problem.tasks import KindTable
from tests.contracts.kernels import notes
from tests.contracts.problems import random_problem
from tests.reference.crammer_singer import best_row, bounds_of, dual, gradient, primal
from tests.reference.dcd import dcd

NO_LOCK = np.empty(0, np.int64)


class Bench:
    """Rows with their state, in `lanes` lanes, and the kernel called on them; rows have ids that are not their places.

    X (n, d), float32 in the columns; alpha (n, n_classes), weights (d, n_classes): copies of what the kernel holds.
    """

    def __init__(self, X, own, C, lanes=None, weight=None, seed=0):
        X = sparse.csr_matrix(X, dtype=np.float32).sorted_indices()
        self.X, self.own, self.C = X.astype(float), np.asarray(own), np.asarray(C, float)
        self.n, self.d, self.n_classes = *X.shape, len(C)
        self.lanes = lanes or self.n_classes
        self.ids = np.random.default_rng(seed).permutation(2 * self.n)[: self.n].astype(np.int32)
        squares = np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        codes, weights = self.own.astype(CODE), NO_COLUMN if weight is None else np.asarray(weight, np.float32)
        no_fold = np.zeros_like(codes)
        self.rows = Columns(self.ids, codes, no_fold, squares, X.indptr, X.indices, X.data, NO_COLUMN, weights)
        self.flat, self.w = np.zeros(2 * self.n * self.lanes), np.zeros(self.d * self.lanes)
        self.row_C = self.C[self.own] * (1.0 if weight is None else weights.astype(float))
        U = self.C[:, np.newaxis] * (np.arange(self.lanes) < self.n_classes)
        self.table = KindTable(1, U, U, 0 * U)

    @property
    def alpha(self):
        return self.flat.reshape(-1, self.lanes)[self.ids, : self.n_classes]

    @property
    def weights(self):
        return self.w.reshape(self.d, self.lanes)[:, : self.n_classes].copy()

    @property
    def bounds(self):
        return np.array([bounds_of(m, C, self.n_classes) for m, C in zip(self.own, self.row_C, strict=True)])

    def n_free(self, alpha):
        """The number of rows in which more than one class has room."""
        return np.count_nonzero((alpha < self.bounds).sum(axis=1) > 1)

    def begin_at(self, alpha):
        self.flat.reshape(-1, self.lanes)[self.ids, : self.n_classes] = alpha
        self.w.reshape(self.d, self.lanes)[:, : self.n_classes] = self.X.T @ alpha

    def visit(self, order, told=None, before=None, lock=NO_LOCK):
        order = np.asarray(order, np.int32)
        pair = Dual(self.flat, self.flat if before is None else before)
        return visit_crammer_singer(
            order, self.rows, self.table, self.n_classes, pair, Weights(self.w, lock), told or notes(len(order))
        )

    def gap(self):
        """(P(w), D(alpha)), both from scratch."""
        D, W = dual(self.alpha, self.X, self.own)
        assert self.weights == pytest.approx(W, rel=1e-8, abs=1e-9 * (1 + np.abs(W).max()))
        return primal(self.weights, self.X, self.own, self.row_C), D

    def solve(self, relative_gap, most_sweeps=20_000):
        """Sweeps until P - D is so little of P; returns P."""
        rng = np.random.default_rng(1)
        for sweep in range(most_sweeps):
            self.visit(rng.permutation(self.n))
            if sweep % 20 == 19:
                P, D = self.gap()
                if relative_gap * P >= P - D:
                    return P
        raise AssertionError(f"{(P - D) / P} is left of the gap")


def feasible_alpha(rng, own, C, n_classes):
    """(n, n_classes) of rows at alpha 0, at C_i against one other class, and with room in some classes."""
    room = np.zeros((len(own), n_classes))
    for i, place in enumerate(own):
        kind = rng.integers(0, 3)
        if kind == 0:
            room[i, place] = C[i]
        elif kind == 1:
            room[i, rng.choice([m for m in range(n_classes) if m != place])] = C[i]
        else:
            which = rng.choice(n_classes, rng.integers(2, n_classes + 1), replace=False)
            room[i, which] = C[i] * rng.dirichlet(np.ones(len(which)))
    return np.array([bounds_of(m, c, n_classes) for m, c in zip(own, C, strict=True)]) - room


def setting(seed, n_classes=5, C=None, n=40, **more):
    """A Bench of rows of all sizes, the last without features, that begins anywhere inside its bounds."""
    rng = np.random.default_rng(seed)
    X, _ = random_problem(n - 1, 30, 6, seed=seed)
    X = sparse.diags(rng.choice([0.03, 1.0, 9.0], n - 1)) @ X
    X = sparse.vstack([X, sparse.csr_matrix((1, 30))])
    own = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    C = rng.choice([0.1, 1.0, 4.0], n_classes) if C is None else np.full(n_classes, C)
    bench = Bench(X, own, C, **more)
    bench.begin_at(feasible_alpha(rng, own, bench.row_C, n_classes))
    return bench


@pytest.mark.parametrize("n_classes", [2, 3, 5, 12])
@pytest.mark.parametrize("seed", range(2))
def test_a_visit_is_the_best_step_of_each_row(seed, n_classes):
    bench = setting(seed, n_classes, lanes=n_classes + seed)
    start, expected, W = bench.alpha, bench.alpha, bench.weights
    order, told = np.random.default_rng(seed).permutation(bench.n), notes(bench.n)
    violations, gains = [], []
    for i in order:
        x, bounds = bench.X[[i]].toarray()[0], bench.bounds[i]
        G, A, old = gradient(W, x, bench.own[i]), x @ x, expected[i].copy()
        has_room = old < bounds
        violations.append(G.max() - G[has_room].min())
        if violations[-1] > 0:
            # Without features all that counts is e: to the bound, shared by all other classes.
            alone = bounds - np.where(bounds > 0, 0, bounds.max()) / (n_classes - 1)
            expected[i] = best_row(G, A, old, bounds) if A > 0 else alone
        step = expected[i] - old
        gains.append(-(G @ step + A * step @ step / 2))
        W += np.outer(x, step)
    M_plus, M_minus, taken, freed = bench.visit(order, told)
    scale = np.abs(expected).max()
    assert bench.alpha == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)
    assert bench.weights == pytest.approx(W, rel=1e-8, abs=1e-9 * np.abs(W).max())
    assert (M_plus, M_minus) == (pytest.approx(max(violations), rel=1e-9), 0.0)
    assert told.gain == pytest.approx(gains, rel=1e-7, abs=1e-9 * max(gains))
    own = np.arange(bench.n), bench.own
    assert taken == pytest.approx(start[own].sum() - expected[own].sum(), rel=1e-9, abs=1e-9 * scale)
    assert freed == bench.n_free(bench.alpha) - bench.n_free(start)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 30), st.sampled_from([0.0, 1e-30, 1e-9, 1.0, 1e9]),
    st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([0, 1, 3]),
)  # fmt: skip
def test_the_best_room_is_on_the_simplex_and_level(seed, n_classes, A, C, digits):
    """Its sum is C, and G_m + A (old r_m) - A r_m is the same for all classes with room, and no more for the others."""
    rng = np.random.default_rng(seed)
    target = np.round(rng.standard_normal(n_classes) * rng.choice([1e-3, 1.0, 1e3]), digits)  # with ties
    target += A * C * rng.dirichlet(np.ones(n_classes)) * rng.integers(0, 2)
    room = target.copy()
    tau = best_room(A, C, target.max(), room, np.empty(n_classes))
    room = np.maximum(0.0, room - tau)
    assert room.sum() == pytest.approx(C, rel=1e-12)
    level = target - A * room
    exact = 1e-12 * (np.abs(target).max() + A * C)
    assert np.ptp(level[room > 0]) <= exact
    assert level.max() <= level[room > 0].min() + exact


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 25), st.sampled_from([0.01, 1.0, 100.0]))
def test_after_every_visit(seed, n_classes, C):
    """alpha is feasible, w is that of alpha, the dual objective has not fallen, and the row is at its best."""
    bench = setting(seed, n_classes, C, n=n_classes + 8, lanes=n_classes + seed % 3)
    before, own = dual(bench.alpha, bench.X, bench.own)[0], bench.own
    for i in np.random.default_rng(seed).integers(0, bench.n, 25):
        told = notes(1)
        bench.visit([i], told)
        alpha = bench.alpha
        assert np.all(alpha <= bench.bounds)
        assert np.abs(alpha.sum(axis=1)).max() <= 1e-12 * C
        now, W = dual(alpha, bench.X, own)
        # Each addition is rounded at the size that w had then.
        assert bench.weights == pytest.approx(W, rel=1e-9, abs=1e-10 * C)
        exact = 1e-11 * (abs(now) + abs(before) + C)
        assert now >= before - exact
        assert told.gain[0] == pytest.approx(now - before, rel=1e-6, abs=10 * exact)
        before = now
        x = bench.X[[i]].toarray()[0]
        z = (x @ bench.weights)[None]
        # A class with room of a last digit may be off by as much as that moves it.
        alpha_i = np.where(bench.bounds[i] - alpha[i] <= 1e-13 * C, bench.bounds[i], alpha[i])[None]
        exact = 1e-9 * (1 + np.abs(z).max() + C * (x @ x))
        assert crammer_singer.violations(own[i : i + 1], bench.row_C[i : i + 1], z, alpha_i)[0] <= exact


@pytest.mark.parametrize("weight", [None, [0.0, 1.0, 2.5, 0.5]])
def test_scores_are_gap_terms_or_how_far_rows_rest(weight):
    kinds = set()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        bench = setting(seed, weight=None if weight is None else rng.choice(weight, 40))
        flat, w, z = bench.flat.copy(), bench.w.copy(), bench.X @ bench.weights
        G, total = z + (np.arange(z.shape[1]) != bench.own[:, np.newaxis]), 0.0
        terms = np.sum((bench.bounds - bench.alpha) * (G.max(axis=1, keepdims=True) - G), axis=1)
        for i in range(bench.n):
            told, alpha = notes(1), bench.alpha[i]
            bench.visit([i], told)
            bench.flat[:], bench.w[:] = flat, w
            kinds.add(check_notes(bench, i, alpha, z[i], terms[i], told.score[0], told.rest[0]))
            total += max(0.0, -float(told.score[0]))
        P, D = bench.gap()
        assert total == pytest.approx(P - D, rel=1e-6)
    assert kinds == {"at 0", "at C", "free", "violates"} | ({"left out"} if weight else set())


def check_notes(bench, i, alpha, z, term, score, rest):
    """Of a visit to row i at this alpha and these decision values; returns which kind of row it is."""
    if bench.row_C[i] == 0:
        assert score == rest == np.inf
        return "left out"
    G = z + (np.arange(bench.n_classes) != bench.own[i])
    has_room = alpha < bench.bounds[i]
    if has_room.sum() == 1 and G[has_room].min() == G.max():
        assert term == 0
        assert score == rest == pytest.approx(G.max() - np.sort(G)[-2], rel=1e-6)
        return "at C" if alpha.any() else "at 0"
    assert rest == -1
    assert score == pytest.approx(-term, rel=1e-6)
    assert score < 0 or bench.rows.Qii[i] == 0
    return "free" if has_room.sum() > 1 else "violates"


def test_a_row_that_rests_does_until_another_class_has_caught_up():
    """Of a row at 0 and of one at C: w moved by less than it rests changes nothing, by more it does."""
    for alpha, w, other in (([0.0, 0.0, 0.0], [3.0, 1.0, 0.5], 1), ([2.0, -2.0, 0.0], [0.5, 3.0, 1.0], 2)):
        bench = Bench(np.eye(1), [0], [2.0, 2.0, 2.0])
        for share, moves in ((0.0, False), (0.99, False), (1.01, True)):
            bench.flat.reshape(-1, 3)[bench.ids], bench.w[:] = alpha, w
            told = notes(1)
            bench.visit([0], told)
            assert bench.alpha[0].tolist() == alpha
            bench.w[other] += share * float(told.rest[0])
            bench.visit([0])
            assert (bench.alpha[0].tolist() != alpha) == moves


def test_rows_that_are_left_out_and_lanes_of_others_stay_as_they_are():
    weight = np.where(np.arange(40) % 3, 1.0, 0.0)
    bench = setting(0, lanes=8, weight=weight)
    assert not bench.alpha[weight == 0].any()
    others = np.arange(8) >= bench.n_classes
    for flat in (bench.flat, bench.w):
        flat.reshape(-1, 8)[:, others] = np.nan
    start = bench.flat.copy()
    for _ in range(3):
        found = bench.visit(np.arange(bench.n))
    assert not np.isnan(found).any()
    assert not bench.alpha[weight == 0].any()
    for flat in (bench.flat, bench.w):
        assert np.isnan(flat.reshape(-1, 8)[:, others]).all()
        assert not np.isnan(flat.reshape(-1, 8)[:, ~others]).any()
    not_there = np.setdiff1d(np.arange(2 * bench.n), bench.ids)
    assert np.array_equal(bench.flat.reshape(-1, 8)[not_there], start.reshape(-1, 8)[not_there], equal_nan=True)


def test_no_rows_nothing_happens():
    bench = setting(0)
    before = bench.flat.copy(), bench.w.copy()
    assert bench.visit([]) == (0.0, 0.0, 0.0, 0)
    assert np.array_equal(bench.flat, before[0])
    assert np.array_equal(bench.w, before[1])


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_momentum_has_moved_come_back(seed):
    bench = setting(seed)
    earlier, earlier_w = bench.flat.copy(), bench.w.copy()
    bench.visit(np.arange(bench.n))
    was = bench.alpha
    move_on(bench.flat, earlier, 0.9)
    move_on(bench.w, earlier_w, 0.9)
    assert np.array_equal(was, earlier.reshape(-1, bench.lanes)[bench.ids])
    moved = bench.alpha
    beyond = np.any(moved > bench.bounds, axis=1)
    assert beyond.sum() > 5
    told = notes(bench.n)
    *_, taken, freed = bench.visit(np.arange(bench.n), told, before=earlier)
    now, own = bench.alpha, (np.arange(bench.n), bench.own)
    assert np.all(now <= bench.bounds)
    assert np.abs(now.sum(axis=1)).max() <= 1e-12 * bench.C.max()
    assert bench.weights == pytest.approx(bench.X.T @ now, rel=1e-9, abs=1e-9)
    # Counted from where the sweep before ended, not from where momentum led.
    assert taken == pytest.approx(was[own].sum() - now[own].sum(), rel=1e-9)
    assert freed == bench.n_free(now) - bench.n_free(was)
    rises = np.diff([dual(alpha, bench.X, bench.own)[0] for alpha in (moved, now)])[0]
    assert told.gain.sum() == pytest.approx(rises, rel=1e-9)
    several = (moved < bench.bounds).sum(axis=1) > 1
    assert np.any(several & beyond)
    assert np.all(told.score[several] <= 0)
    assert np.all(told.rest[several] == -1)


def test_threads_leave_the_w_of_alpha():
    bench, lock = setting(3, n=400, lanes=8), np.zeros(1, np.int64)
    halves = np.random.default_rng(0).permutation(bench.n).reshape(2, -1)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            list(pool.map(lambda half: bench.visit(half, lock=lock), halves))
    P, D = bench.gap()
    assert np.all(bench.alpha <= bench.bounds)
    assert D <= P
    assert lock[0] == 0


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_two_classes_are_the_machine_of_two_classes(C):
    """w_1 = -w_0 = u / 2 there: P is half of that of hinge loss with 2 C."""
    X, y = random_problem(150, 30, 6)
    found = Bench(X, (y > 0).astype(int), [C, C]).solve(1e-7)
    assert found == pytest.approx(dcd(X.astype(float), y, 2 * C, "hinge", tol=1e-8).primal / 2, rel=2e-7)
