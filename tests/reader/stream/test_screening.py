"""Rows that rest at their bound stay out of the cache, and nothing else does: the optimum is the same."""

import itertools

import numpy as np
import pytest

import streamsvm.reader.stream.arrivals
from streamsvm.reader.stream.screening import Screening
from streamsvm.reader.stream.stream_kernel import NEW, RESIDENT, SCREENED, account, classify
from streamsvm.storage.run.state import create_state, pass_stamp
from streamsvm.trainer.problem.losses import REGRESSION, SVM_LOSSES
from streamsvm.trainer.problem.objective import make_objective
from streamsvm.trainer.problem.tasks import Tasks
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import a_dataset, make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE, check_certificate, check_pass, exact, solving
from tests.training import train

PASSES = 8
WEIGHTS = {"C": 2.0, "C_negative": 0.5}

# Nearly separable: most rows come to rest. Several times what the cache holds.
dataset = a_dataset(600, noise=0.03)


def setting(seed, n=400, n_rows=1000):
    """Rows at a bound and between, on either side of the margin and on it; some resident, some that just left."""
    rng = np.random.default_rng(seed)
    row_id = rng.permutation(n_rows)[:n].astype(np.int32)
    y = rng.choice([-1, 1], n).astype(np.float32)
    m = rng.choice([-2.0, 0.4, 0.5, 0.6, 0.95, 1.0, 1.05, 1.4, 1.5, 1.6, 3.0], n)
    upper = np.where(y > 0, 2.0, 0.25)
    alpha = np.zeros(n_rows)
    alpha[row_id] = rng.choice([0.0, 0.5, 1.0], n) * upper
    is_resident = rng.random(n_rows) < 0.3
    leaving = ~is_resident & (rng.random(n_rows) < 0.3)
    return row_id, y, m, upper, is_resident, leaving, alpha


def classified(row_id, y, m, slack, bounds, is_resident, leaving, alpha, kind, new, tube=-1.0):
    no = np.zeros(len(row_id) + 1, np.int32)
    rows = plain_segment(row_id, y, np.zeros(len(row_id)), no, no[:0], no[:0].astype(np.float32)).columns
    resting = np.array(bounds)[:, np.newaxis]
    books = is_resident, leaving, alpha[:, np.newaxis]
    return classify(rows, 0, m[:, np.newaxis], slack, 1, resting, tube, *books, kind, new)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slack", [-1.0, 0.0, 0.5])
def test_rows_are_sorted_as_defined(seed, slack):
    row_id, y, m, upper, is_resident, leaving, alpha = setting(seed)
    own, G = alpha[row_id], m - 1
    at_rest = ((own == 0) & (slack < G)) | ((own == upper) & (-slack > G))
    screened = at_rest & ~is_resident[row_id] & ~leaving[row_id] & (slack >= 0)
    expected = np.where(is_resident[row_id], RESIDENT, np.where(screened, SCREENED, NEW))
    kind, new = np.empty(len(row_id), np.uint8), np.empty(len(row_id), np.int64)
    count = classified(row_id, y, m, slack, [2.0, 0.25], is_resident, leaving, alpha, kind, new)
    assert np.array_equal(kind, expected)
    assert np.array_equal(new[:count], np.flatnonzero(expected == NEW))
    # The case is one: rows at rest that may not be screened, and rows that are.
    assert (at_rest & leaving[row_id]).any() and (at_rest & is_resident[row_id]).any()
    assert (expected == SCREENED).any() == (slack >= 0)


@pytest.mark.parametrize("loss", SVM_LOSSES)
def test_without_an_upper_bound_only_zero_is_one(loss):
    """U = inf: a row far on the wrong side of the margin is never at rest."""
    kind, new = np.empty(2, np.uint8), np.empty(2, np.int64)
    alpha, no = np.array([0.0, 1e300]), np.zeros(2, bool)
    m, y = np.array([5.0, -5.0]), np.ones(2, np.float32)
    classified(np.arange(2), y, m, 0.1, [np.inf] * 2, no, no, alpha, kind, new)
    assert kind.tolist() == [SCREENED, NEW]


@pytest.mark.parametrize("slack", [0.0, 0.2])
def test_numbers_rest_inside_the_tube_and_at_the_bound_on_their_side(slack):
    rng = np.random.default_rng(0)
    residual, U = rng.choice([-2.0, -0.8, -0.55, -0.5, -0.4, 0.0, 0.4, 0.5, 0.55, 0.8, 2.0], 400), 2.0
    alpha, no = rng.choice([-U, -0.5, 0.0, 0.5, U], 400), np.zeros(400, bool)
    kind, new = np.empty(400, np.uint8), np.empty(400, np.int64)
    arguments = np.arange(400), np.ones(400, np.float32), residual, slack, [U, U], no, no, alpha, kind, new
    classified(*arguments, tube=0.5)
    rests = (alpha == 0) & (np.abs(residual) < 0.5 - slack)
    rests |= (np.abs(alpha) == U) & (-np.sign(alpha) * residual > 0.5 + slack)
    assert np.array_equal(kind, np.where(rests, SCREENED, NEW))
    assert {-U, 0.0, U} == set(alpha[rests])


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_entered_in_the_books(seed):
    rng = np.random.default_rng(seed)
    row_id, _, _, _, is_resident, *_ = setting(seed)
    n_rows, stamp = len(is_resident), 7
    kind = np.where(is_resident[row_id], RESIDENT, rng.choice([NEW, SCREENED], len(row_id))).astype(np.uint8)
    lengths = rng.integers(0, 9, len(row_id))
    indptr = np.concatenate([[5], 5 + np.cumsum(lengths)]).astype(np.int32)
    visited = rng.choice([0, 6, 7], n_rows).astype(np.uint8)
    skipped, resident = np.zeros(n_rows, np.uint8), is_resident.copy()
    found = account(row_id, kind, indptr, stamp, resident, skipped, visited)
    by = {name: kind == name for name in (NEW, RESIDENT, SCREENED)}
    unvisited = np.count_nonzero(visited[row_id[by[SCREENED]]] != stamp)
    assert found == (by[SCREENED].sum(), unvisited, lengths[by[RESIDENT]].sum(), by[RESIDENT].sum())
    is_resident[row_id[by[NEW]]] = True
    assert np.array_equal(resident, is_resident)
    assert np.array_equal(np.flatnonzero(skipped), np.sort(row_id[by[RESIDENT]]))
    assert set(skipped[row_id[by[RESIDENT]]]) == {stamp}


@pytest.fixture
def watched(monkeypatch):
    """What was screened: (row ids, stamp of the pass), a tuple for each run of rows."""
    seen = []

    def watching(row_id, kind, indptr, stamp, is_resident, skipped, visited):
        seen.append((row_id[kind[: len(row_id)] == SCREENED], stamp))
        return account(row_id, kind, indptr, stamp, is_resident, skipped, visited)

    monkeypatch.setattr(streamsvm.reader.stream.arrivals, "account", watching)
    return seen


@pytest.mark.parametrize("loss", SVM_LOSSES)
@pytest.mark.parametrize("slack", [0.0, 0.2])
def test_only_rows_beyond_the_slack_are_left_out(tmp_path, dataset, watched, loss, slack):
    problem = exact(dataset, loss=loss, **WEIGHTS)
    with solving(tmp_path / "run", dataset, loss=loss, screening=slack, **WEIGHTS) as session:
        before, w, checked = None, None, 0
        for _ in range(PASSES):
            progress = next(session.passes)
            check_pass(problem, progress, session.alpha, session.w, before, {})
            if w is not None:
                # Of the pass that has just ended: its rows that were screened have kept their alpha since.
                rows = np.concatenate([row_id for row_id, stamp in watched if stamp == pass_stamp(progress.pass_)])
                m, own = problem.y[rows] * (problem.X[rows] @ w), session.alpha[rows]
                low, high = own == 0, own == problem.upper[rows]
                assert np.all(low | high)
                assert np.all(m[low] > 1 + slack - 1e-9) and np.all(m[high] < 1 - slack + 1e-9)
                checked += len(rows)
            # What the coming pass is screened at.
            w, before = session.w.copy(), progress
        assert checked > 300


def test_rows_of_logistic_loss_never_rest(tmp_path):
    state = create_state(tmp_path, 3, 5)
    state.w[:] = 1.0
    screening = Screening(make_objective(Tasks.single("logistic", 1.0)), state, 0.25)
    screening.begin_pass(5)
    assert screening.slack < 0.0


@pytest.mark.parametrize("loss", [*SVM_LOSSES, *REGRESSION])
def test_the_optimum_is_the_same(tmp_path, dataset, loss):
    # A row rests inside the tube by epsilon at most: that has to be more than the slack.
    weights = {"C": WEIGHTS["C"], "epsilon": 0.5} if loss in REGRESSION else WEIGHTS
    settings = {"loss": loss, "screening": 0.1, "tolerance": None, "relative_gap": 1e-6, **weights}
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, max_passes=500, updates_per_row=6, **settings)
    assert found.result["stop_reason"] == "relative_gap"
    assert found.passes[-1]["rows_screened"] > 0.1 * found.passes[-1]["rows_streamed"]
    assert all(done["rows_unvisited"] == 0 for done in found.passes)
    check_certificate(found, exact(dataset, loss=loss, **weights))
    other = train(tmp_path / "all", dataset, SMALLEST_CACHE, max_passes=500, **{**settings, "screening": None})
    assert other.passes[-1]["rows_screened"] == 0
    certificates = [run.result["certificate"] for run in (found, other)]
    for one, another in itertools.permutations(certificates):
        assert one["dual_objective"] <= another["primal_objective"]
        assert one["dual_objective"] == pytest.approx(another["dual_objective"], rel=2e-6)


@pytest.mark.parametrize("settings", [{"screening": None}, {"solver": "streamsvm_paper"}], ids=str)
def test_nothing_is_screened(tmp_path, dataset, settings):
    found = train(tmp_path / "run", dataset, SMALLEST_CACHE, tolerance=None, max_passes=PASSES, **settings)
    assert found.passes[-1]["rows_streamed"] >= PASSES * 600
    assert found.passes[-1]["rows_screened"] == 0


def test_what_is_screened_costs_no_updates(tmp_path):
    """Where a small part of the data is resident: the visit that a row gets when it arrives is saved."""
    large = make_dataset(tmp_path / "data", *random_problem(3000, noise=0.03))
    runs = [
        train(tmp_path / f"{slack}", large, 150_000, tolerance=None, max_passes=4, screening=slack)
        for slack in (0.1, None)
    ]
    # Nothing is known in the first pass.
    assert runs[0].passes[0]["updates"] == runs[1].passes[0]["updates"]
    screened, updates = runs[0].state.control["rows_screened"], [run.passes[-1]["updates"] for run in runs]
    assert screened > 3000
    assert updates[0] < updates[1] - screened / 2


@pytest.mark.parametrize("spares", [True, False])
def test_where_all_rows_are_to_be_at_hand_none_is_left_out_of_the_first_pass(tmp_path, spares):
    """Of an attempt: it may begin with a w, under which some rest."""
    state = create_state(tmp_path, 3, 5)
    screening = Screening(make_objective(Tasks.single("hinge", 1.0, 0.5)), state, 0.25, spares)
    state.w[:] = 1.0
    screening.begin_pass(5)
    assert screening.slack == (-1.0 if spares else 0.25)
    assert screening.objective.resting[:, 0].tolist() == [1.0, 0.5]
    screening.end_pass()
    screening.begin_pass(5)
    assert screening.slack == 0.25
