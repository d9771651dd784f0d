"""Kernel machines on a budget: against a slow clear reference, the Gram matrix, and what they say of themselves."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import streamsvm.trainer.solvers.budget
from streamsvm.storage.models.gaussian_kernel import LANES
from streamsvm.storage.models.support_vectors import KernelState, SupportVectors, packed, published_machine
from streamsvm.storage.rows.csr import EMPTY
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.machine import COUNT, DEGRADATION, LARGEST, MERGES, SMALLEST, VisitRule
from streamsvm.trainer.kernels.merging import degradation_table, looked_up
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.solvers.budget import Budget, slots_of
from streamsvm.trainer.solvers.budgeted import Spread
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import exact
from tests.reference.budgeted import Reference, gaussian
from tests.training import train

GAMMA, C = 0.5, 2.0
SOLVERS = [False, True]  # BSGD, or BSCA


def small_problem(n_rows=90, n_features=6, seed=0):
    """Values that float32 adds and multiplies without rounding, so that distances are exact."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, (n_rows, n_features)) / 8.0 * (rng.random((n_rows, n_features)) < 0.7)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.2 * rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    return X, y


def segment_of(X, y) -> Segment:
    """Rows of the class sign(y) with the weights |y|."""
    rows = sparse.csr_matrix(X.astype(np.float32))
    indptr = rows.indptr.astype(np.int32)
    Qii = np.asarray(rows.multiply(rows).sum(axis=1), float).ravel()
    ids = np.arange(len(y), dtype=np.int32)
    plain = plain_segment(ids, np.where(y > 0, 1.0, -1.0), Qii, indptr, rows.indices, rows.data)
    return replace(plain, weight=np.abs(y).astype(np.float32))


def visited(X, y, order, budget, is_gradient=False, threads=1, candidates=0, C=(C, C), is_looked_up=True):
    """(the Budget, alpha) after these visits."""
    alpha = np.zeros(len(y))
    rule = VisitRule(Tasks.single("hinge", *C).table, GAMMA, len(y), budget, is_gradient, is_looked_up, candidates)
    with ThreadPoolExecutor(max(1, threads - 1)) as pool:
        own = Budget(rule, alpha, X.shape[1], 7, threads, pool, EMPTY)
        own.begin_pass()
        own.gain = own.visit(segment_of(X, y), np.asarray(order, np.int32))
    return own, alpha


def f_of(budget, X):
    machine = budget.machine()
    return gaussian(X, dense(machine.vectors), GAMMA) @ machine.beta


def dense(vectors: SupportVectors):
    shape = len(vectors), vectors.width
    return sparse.csr_matrix((vectors.values, vectors.indices, vectors.indptr), shape).toarray().astype(float)


def told(machine: KernelState):
    return packed(machine.vectors), machine.beta.tobytes()


def epochs(n_rows, count, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(n_rows) for _ in range(count)])


@pytest.mark.parametrize("is_gradient", SOLVERS)
@pytest.mark.parametrize("budget", [90, 40, 12])
def test_visits_are_those_of_the_reference(is_gradient, budget):
    X, y = small_problem()
    order = epochs(90, 3)
    # Each row has a weight of its own, or many |beta| would be the same: which is the smallest would be chance.
    weight = 1.0 + np.arange(90) / 1024
    # By the same table: where two partners are as good, either is right, and all that follows differs.
    wd = partial(looked_up, degradation_table())
    reference = Reference(X, y, C * weight, GAMMA, budget, is_gradient, wd)
    g = [reference.visit(i) for i in order]
    own, alpha = visited(X, y * weight, order, budget, is_gradient)
    assert f_of(own, X) == pytest.approx(reference.f(X), abs=1e-5)
    assert alpha == pytest.approx(reference.alpha, abs=1e-5)
    assert own.figures[COUNT] == len(reference.beta)
    assert own.figures[DEGRADATION] == pytest.approx(reference.degradation, rel=1e-5, abs=1e-12)
    assert (own.figures[LARGEST], own.figures[SMALLEST]) == pytest.approx((max(g), min(g)), abs=1e-5)
    assert bool(own.figures[MERGES]) == (budget < 90)


def test_with_room_for_all_rows_it_is_descent_on_the_gram_matrix():
    X, y = small_problem()
    order = epochs(90, 30)
    Q = gaussian(X, X, GAMMA) * np.outer(y, y)
    alpha = np.zeros(90)
    gains = []
    for i in order:
        g = 1 - Q[i] @ alpha
        d = np.clip(alpha[i] + g, 0, C) - alpha[i]
        alpha[i] += d
        gains.append(d * (g - d / 2))
    own, found = visited(X, y, order, 90)
    assert found == pytest.approx(alpha, abs=1e-10)
    assert f_of(own, X) == pytest.approx(gaussian(X, X, GAMMA) @ (alpha * y), abs=1e-10)
    assert own.gain == pytest.approx(gains, abs=1e-10)
    assert own.half_squared_norm == pytest.approx(alpha @ Q @ alpha / 2, rel=1e-10)
    assert own.figures[COUNT] == np.count_nonzero(alpha)


@pytest.mark.parametrize("candidates", [0, 5])
@pytest.mark.parametrize("is_gradient", SOLVERS)
def test_any_number_of_threads_finds_the_same_to_the_byte(is_gradient, candidates, monkeypatch):
    monkeypatch.setattr(streamsvm.trainer.solvers.budget, "_PRODUCTS", 0)  # rows so short are one thread's alone
    X, y = small_problem(300)
    order = epochs(300, 3)
    found = [visited(X, y, order, 25, is_gradient, threads, candidates) for threads in (1, 2, 3, 5)]
    assert len({told(budget.machine()) for budget, _ in found}) == len({alpha.tobytes() for _, alpha in found}) == 1


@pytest.mark.parametrize("is_looked_up", [True, False])
def test_few_candidates_lose_more(is_looked_up):
    X, y = small_problem(400)
    order = epochs(400, 2)
    lost = [
        visited(X, y, order, 30, candidates=k, is_looked_up=is_looked_up)[0].figures[DEGRADATION] for k in (0, 10, 1)
    ]
    assert lost[0] < lost[1] < lost[2]


@pytest.mark.parametrize("is_gradient", SOLVERS)
def test_what_is_kept_up_is_what_there_is(is_gradient):
    """After many merges products, norms and lists of features still belong to the vectors."""
    X, y = small_problem(300)
    own, _ = visited(X, y, epochs(300, 5), 20, is_gradient)
    vectors, beta = own.machine().vectors, own.machine().beta
    Z = dense(vectors)
    assert len(beta) <= 20
    assert own.half_squared_norm == pytest.approx(beta @ gaussian(Z, Z, GAMMA) @ beta / 2, rel=1e-5)
    assert all(
        (np.diff(vectors.indices[a:b]) > 0).all() for a, b in zip(vectors.indptr, vectors.indptr[1:], strict=False)
    )
    _check_features(own._vectors)


def _check_features(vectors):
    """Each feature of a vector is named once, and no other has a value."""
    for s, length in enumerate(vectors.lengths):
        assert sorted(vectors.features[s, :length]) == np.flatnonzero(vectors.Z[:, s]).tolist()


def test_values_that_cancel_are_not_forgotten():
    """Vectors of +1 and -1 in the same features, merged half and half: what comes to 0 may come back."""
    X = np.tile([[1.0, 1.0, 0.5], [-1.0, 1.0, 0.5], [1.0, -1.0, 0.5], [-1.0, -1.0, 0.5]], (10, 1))
    X += np.repeat(np.arange(10), 4)[:, None] / 64 * [0.0, 0.0, 1.0]
    own, _ = visited(X, np.ones(40), epochs(40, 20), 3)
    assert own.figures[MERGES] > 20
    _check_features(own._vectors)
    machine = own.machine()
    Z, beta = dense(machine.vectors), machine.beta
    assert own.half_squared_norm == pytest.approx(beta @ gaussian(Z, Z, GAMMA) @ beta / 2, rel=1e-5)


def test_merging_rows_that_are_the_same_changes_nothing():
    """k = 1: of eight copies of each of twelve rows twelve vectors are left, and f is that of all of them."""
    X, y = small_problem(12)
    X, y = np.tile(X, (8, 1)), np.tile(y, 8)
    own, alpha = visited(X, y, np.arange(96), 12, C=(0.01, 0.01))
    assert own.figures[COUNT] == 12 and own.figures[MERGES] == 84
    assert own.figures[DEGRADATION] == pytest.approx(0.0, abs=1e-12)
    assert f_of(own, X) == pytest.approx(gaussian(X, X, GAMMA) @ (alpha * y), abs=1e-7)


def test_zeros_that_are_stored_are_no_features():
    """Of rows that name every feature; the machine is that of rows that name those with a value."""
    X, y = small_problem(200)
    named = segment_of(X + 1.0, y)
    stored = replace(named, values=X.astype(np.float32).ravel(), indices=np.tile(np.arange(6, dtype=np.int32), 200),
                     indptr=np.arange(0, 1201, 6, dtype=np.int32), Qii=(X**2).sum(axis=1))  # fmt: skip
    found = []
    for rows in (stored, segment_of(X, y)):
        alpha, rule = np.zeros(200), VisitRule(Tasks.single("hinge", C).table, GAMMA, 200, 12, False, True, 0)
        with ThreadPoolExecutor(1) as pool:
            own = Budget(rule, alpha, 6, 7, 1, pool, EMPTY)
            own.begin_pass()
            own.visit(rows, epochs(200, 3).astype(np.int32))
        _check_features(own._vectors)
        found.append(f_of(own, X))
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_rows_left_out_and_weights_of_rows_and_classes():
    """A row of weight 2 counts as one of twice the C; one of weight 0 is passed over."""
    X, y = small_problem(60)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 60)
    order = epochs(60, 3)
    own, alpha = visited(X, y * weight, order, 60, C=(C, 3 * C))
    kept = np.flatnonzero(weight)
    limit = C * weight * np.where(y > 0, 1.0, 3.0)
    reference = Reference(X[kept], y[kept], limit[kept], GAMMA, 60)
    for i in order[weight[order] > 0]:
        reference.visit(np.searchsorted(kept, i))
    assert alpha[kept] == pytest.approx(reference.alpha, abs=1e-9)
    assert not alpha[weight == 0].any()
    assert own.figures[LARGEST] > own.figures[SMALLEST]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data") / "data", *random_problem(500))


WAYS = [
    {"solver": "bsca"}, {"solver": "bsca", "selection": "adaptive"}, {"solver": "bsca", "threads": 3},
    {"solver": "bsca", "merge": "golden", "candidates": None}, {"solver": "bsgd"},
]  # fmt: skip


@pytest.mark.parametrize("cache_bytes", [1 << 20, 120_000])
@pytest.mark.parametrize("way", WAYS)
def test_a_job_says_what_its_machine_is_worth(tmp_path, dataset, way, cache_bytes):
    """Also where rows come block by block. P is exact, and nothing is claimed that is not known."""
    found = train(tmp_path / "run", dataset, cache_bytes, max_passes=6, gamma=GAMMA, budget=60, **way)
    machine = published_machine(tmp_path / "run")
    beta, Z = machine.beta, dense(machine.vectors)
    problem = exact(dataset)
    X = problem.X.toarray()
    f, K = gaussian(X, Z, GAMMA) @ beta, gaussian(Z, Z, GAMMA)
    P = beta @ K @ beta / 2 + np.maximum(0, 1 - problem.y * f).sum()
    certificate, last = found.result["certificate"], found.passes[-1]
    assert certificate["primal_objective"] == pytest.approx(P, rel=1e-6)
    for name in ("dual_objective", "relative_duality_gap", "m_plus", "m_minus", "gap", "w_error"):
        assert np.isnan(certificate[name])
    assert last["support_vectors"] == len(beta) <= 60
    assert last["merges"] == machine.merges > 0
    assert last["weight_degradation"] == machine.degradation > 0
    assert last["updates"] == 6 * 500 or "selection" in way
    assert 0 < last["merging_seconds"] < last["visiting_seconds"]
    if "selection" in way:
        assert np.isnan(last["primal_estimate"])
    else:
        assert last["primal_estimate"] == pytest.approx(P, rel=0.3)
    accuracy = np.mean(np.sign(f) == problem.y)
    assert accuracy > 0.8


def test_training_ends_when_the_spread_of_gradients_stays(tmp_path, dataset):
    found = train(tmp_path / "run", dataset, 1 << 20, gamma=GAMMA, solver="bsca", budget=1000, tolerance=0.02, C=0.5)
    spread = np.log([each["largest_gradient"] - each["smallest_gradient"] for each in found.passes])
    change = np.abs(np.diff(spread))
    assert found.result["stop_reason"] == "tolerance" and found.result["converged"]
    assert max(change[-2:]) <= 0.02
    assert not any(max(change[k : k + 2]) <= 0.02 for k in range(len(change) - 2))
    assert found.passes[-1]["spread_change"] == pytest.approx(max(change[-2:]))


def test_adaptive_selection_ends_when_the_spread_of_rounds_stays(tmp_path, dataset):
    """Passes leave out rows, and say less than a round of passes, which visits each."""
    way = {"solver": "bsca", "selection": "adaptive", "budget": 1000, "C": 0.3, "tolerance": 0.001, "max_passes": 100}
    found = train(tmp_path / "run", dataset, 1 << 20, gamma=GAMMA, **way)
    change = np.abs(np.diff(np.log([each["largest_gradient"] - each["smallest_gradient"] for each in found.passes])))
    assert found.result["stop_reason"] == "tolerance" and found.result["converged"]
    assert found.passes[-1]["spread_change"] <= 0.001
    assert any(max(change[k : k + 2]) <= 0.001 for k in range(len(change) - 2))


def test_a_spread_is_that_of_a_round_also_when_it_is_resumed():
    """Three rows; the last is visited in every second pass alone, and has the largest gradient."""
    spread = Spread(3, {})
    for pass_ in range(6):
        assert spread.change == math.inf
        is_last_visited = pass_ % 2 == 1
        spread.note(np.arange(3 if is_last_visited else 2))
        spread.end_pass(SimpleNamespace(largest=3.0 if is_last_visited else 0.5, smallest=-1.0))
        spread = Spread(3, {name: array.copy() for name, array in spread.resumable().items()})
    assert spread.change == 0.0


def test_where_all_rows_are_visited_each_pass_is_a_round():
    spread = Spread(0, {})
    for largest in (1.0, 1.0, 2.0):
        spread.note(np.arange(3))
        spread.end_pass(SimpleNamespace(largest=largest, smallest=0.0))
    assert spread.change == pytest.approx(math.log(2.0))


@pytest.mark.parametrize("budget", [2, 15, 16, 100, 500, 511, 512, 527, 528, 1000])
def test_there_is_one_place_more_than_the_budget_and_the_number_of_lanes_is_odd(budget):
    slots = slots_of(budget)
    assert budget < slots <= budget + 2 * LANES
    assert slots % LANES == 0
    assert slots // LANES % 2 == 1
