"""Rows of several machines, trained in one place: they come to their optimum, others stay as they are."""

import errno
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.cluster.process import pool_for
from streamsvm.service.cluster.rounds.convergence import RoundConvergence
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.rows.segment import SegmentBuilder
from streamsvm.trainer.distributed import pool as pooled_rows
from streamsvm.trainer.distributed.pool import Pool
from tests.contracts.objectives import plain_segment
from tests.contracts.problems import make_dataset, random_problem, weighted_text
from tests.trainer.disks import Disk, refuses

N_ROWS, POOLED = 300, 200
X, Y = random_problem(N_ROWS, 60, seed=5)
KINDS = (Y < 0).astype(float)  # what y is where there are lanes: the first label is the larger one
Z = np.asarray(X.multiply(Y[:, None]).todense(), np.float64)  # y_i x_i


def dual(alpha, D):
    return alpha.sum() - D * alpha @ alpha / 2 - np.sum((Z.T @ alpha) ** 2) / 2


def optimum(alpha, U, D):
    """alpha where D is largest in the pooled rows, by visits until none changes it."""
    alpha = alpha.copy()
    w = Z.T @ alpha
    Q = (Z**2).sum(1) + D
    before = None
    while before is None or np.abs(alpha - before).max() > 1e-12:
        before = alpha.copy()
        for i in range(POOLED):
            new = min(max(alpha[i] - (Z[i] @ w - 1 + D * alpha[i]) / Q[i], 0.0), U[i])
            w += (new - alpha[i]) * Z[i]
            alpha[i] = new
    return alpha


def pool_of(tmp_path, directory=None, **fields):
    directory = directory or make_dataset(tmp_path / "data" / "dataset", X, Y)
    plan = plan_job(parse_spec({"dataset": "any", "machines": 2, **fields}), read_manifest(directory))
    return pool_for(plan, directory, fitted_maps(plan.maps, Dataset(directory)), tmp_path)


def given(first, last, alpha, weight=None):
    """Some rows in two segments."""
    Qii = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    rows = plain_segment(np.arange(N_ROWS), Y, Qii, X.indptr, X.indices, X.data)
    rows = rows if weight is None else replace(rows, weight=weight)
    segments = []
    for part in np.array_split(np.arange(first, last, dtype=np.int32), 2):
        builder = SegmentBuilder(1 << 19)
        assert builder.add(rows, part) == len(part)
        segments.append(builder.take())
    return tuple(segments), alpha.reshape(N_ROWS, -1)[first:last]


def filled(pooled, alpha, **about):
    """What two machines give, by turns."""
    for number, first, last in ((0, 0, 50), (1, 50, 120), (0, 120, POOLED)):
        pooled.add(number, *given(first, last, alpha, **about))
    return pooled


def in_order(found):
    every = np.concatenate([found[0][:50], found[1], found[0][50:]])
    return every[:, 0] if every.shape[1] == 1 else every


@pytest.fixture
def alpha():
    """Feasible at C = 0.5, anywhere."""
    return np.random.default_rng(2).choice([0.0, 0.1, 0.5], N_ROWS)


def train(pooled, w, lanes=1, share=1e-9, is_interrupted=lambda: False):
    return pooled.train(w.reshape(60, -1), np.zeros(lanes, np.int64), share, is_interrupted)


@pytest.mark.parametrize("spill", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_pooled_rows_come_to_their_optimum(tmp_path, alpha, loss, spill):
    C = 0.5
    U, D = np.full(N_ROWS, C if loss == "hinge" else np.inf), 0.0 if loss == "hinge" else 1 / (2 * C)
    pool, w = pool_of(tmp_path, loss=loss, C=C, solver_options={"spill": spill}), Z.T @ alpha
    with pool as pooled:
        assert pooled.updates == 0
        found = in_order(train(filled(pooled, alpha), w))
    assert pooled.updates > 2 * POOLED
    best, now = optimum(alpha, U, D), np.concatenate([found, alpha[POOLED:]])
    assert dual(best, D) - dual(now, D) <= 1e-7 * dual(best, D)
    assert (found >= 0).all() and (found <= U[:POOLED]).all()
    assert np.allclose(w, Z.T @ now, atol=1e-9)
    assert not [path for path in tmp_path.iterdir() if path.name != "data"]


def test_lanes_come_to_theirs_and_one_that_has_converged_stays(tmp_path, alpha):
    values = [0.1, 0.5, 1.0, 2.0]
    pool = pool_of(tmp_path, C=values)
    of_lanes = np.minimum(alpha[:, None], values)
    w = Z.T @ of_lanes
    with pool as pooled:
        filled(pooled, of_lanes)
        found = in_order(pooled.train(w, np.array([0, 0, 1, 0]), 1e-9, lambda: False))
    now = np.concatenate([found, of_lanes[POOLED:]])
    for lane, C in enumerate(values):
        best = of_lanes[:, 2] if lane == 2 else optimum(of_lanes[:, lane], np.full(N_ROWS, C), 0.0)
        assert abs(dual(best, 0.0) - dual(now[:, lane], 0.0)) <= 1e-7 * dual(best, 0.0)
    assert np.allclose(w, Z.T @ now, atol=1e-9)


@pytest.mark.parametrize("values", [[0.5], [0.25, 0.5]])
def test_weights_of_rows_are_theirs(tmp_path, alpha, values):
    weight = np.random.default_rng(3).choice([0.5, 1.0, 3.0], N_ROWS)
    directory = tmp_path / "data" / "dataset"
    ingest([weighted_text(X, Y, weight)], directory, InputOptions(index_base=1))
    pool = pool_of(tmp_path, directory, C=values if len(values) > 1 else values[0])
    is_one = len(values) == 1
    U = weight[:, None] * (values if is_one else [*values, 0.0, 0.0])  # an axis is no narrower than four
    of_lanes = np.minimum(alpha[:, None], U)
    begins, w = (each[:, 0].copy() if is_one else each for each in (of_lanes, Z.T @ of_lanes))
    with pool as pooled:
        found = in_order(train(filled(pooled, begins, weight=weight), w, len(values)))
    for lane in range(len(values)):
        now = np.concatenate([found, begins[POOLED:]]).reshape(N_ROWS, -1)[:, lane]
        best = optimum(of_lanes[:, lane], U[:, lane], 0.0)
        assert dual(best, 0.0) - dual(now, 0.0) <= 1e-7 * dual(best, 0.0)


@pytest.mark.parametrize("after", [0, 1, 5, 40])
def test_an_interruption_leaves_what_there_is(tmp_path, alpha, after):
    asked = []
    w = Z.T @ alpha
    with pool_of(tmp_path, C=0.5) as pooled:
        found = in_order(train(filled(pooled, alpha), w, is_interrupted=lambda: asked.append(0) or len(asked) > after))
    now = np.concatenate([found, alpha[POOLED:]])
    assert np.allclose(w, Z.T @ now, atol=1e-9)
    assert dual(now, 0.0) >= dual(alpha, 0.0) - 1e-12
    assert (found >= 0).all() and (found <= 0.5).all()


def test_who_is_asked_may_raise(tmp_path, alpha):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pool_of(tmp_path, C=0.5) as pooled:
        train(filled(pooled, alpha), Z.T @ alpha, is_interrupted=stop)
    assert not [path for path in tmp_path.iterdir() if path.name != "data"]


@pytest.mark.parametrize("wanted", ["append", "read"])
def test_a_disk_that_refuses_costs_the_training_alone(tmp_path, alpha, wanted):
    pool, w = pool_of(tmp_path, C=0.5), Z.T @ alpha
    disk = Disk(refuses(wanted, 3))
    with Pool(pool.settings, tmp_path, 1 << 30, disk.rows) as pooled:
        found = train(filled(pooled, alpha), w)
    now = np.concatenate([in_order(found), alpha[POOLED:]]) if found else alpha
    assert (wanted == "append") == (not found)
    assert np.allclose(w, Z.T @ now, atol=1e-9)
    assert dual(now, 0.0) >= dual(alpha, 0.0) - 1e-12


def test_nothing_given_is_nothing_trained(tmp_path):
    w = np.ones(60)
    with pool_of(tmp_path) as pooled:
        pooled.add(0, (), np.empty((0, 1)))
        assert train(pooled, w) == {}
    assert (w == 1.0).all()


def test_machines_that_work_alone_have_none(tmp_path):
    assert pool_of(tmp_path, combine="average") is None


def test_a_tenth_of_the_gap_is_left_and_no_less_than_is_wanted():
    def share(gap, wanted):
        spec = parse_spec({"dataset": "any", "machines": 2, "relative_gap": wanted, "tolerance": None})
        now = RoundConvergence(spec, 2, lambda: False)
        now.D, now.gap = np.array([100.0, 10.0]), np.array(gap)
        return now.share_of_gap()

    assert share([50.0, 5.0], 1e-4) == 0.1
    assert share([0.04, 0.0], 1e-4) == pytest.approx(0.125, rel=1e-3)
    assert share([1e-9, np.nan], 1e-4) == 0.5
    assert share([1e-9, 1.0], None) == 0.1


def test_no_room_for_alpha_costs_the_training_alone(tmp_path, alpha, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(pooled_rows, "create_state", full)
    w = Z.T @ alpha
    with pool_of(tmp_path, C=0.5) as pooled:
        assert train(filled(pooled, alpha), w) == {}
    assert np.array_equal(w, Z.T @ alpha)
