"""Rounds of real readers and trainers on parts of a dataset: the optimum of one machine, steps, reports, loss."""

import io
import json
from collections import defaultdict
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.service.cluster.dataset.shards import deal
from streamsvm.service.cluster.process import Reporter
from streamsvm.service.cluster.rounds.convergence import best_step
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.states import has_met_goal
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.run.slowdowns import bits_of
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.distributed.messages import Activity, Change
from tests.contracts.problems import make_blocks, random_problem
from tests.service.cluster.coordinating import Around, coordinate, input_w

MACHINES = SimpleNamespace(node=lambda number: f"node{number}", is_lost=lambda _: False)


@pytest.fixture(scope="module")
def problem():
    return random_problem(n_rows=600, n_features=200, seed=3)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, problem):
    return make_blocks(tmp_path_factory.mktemp("data") / "dataset", *problem, 8)


def objective(X, y, w, C, loss):
    lost = np.maximum(0, 1 - y * (X @ w))
    return w @ w / 2 + C * (lost.sum() if loss == "hinge" else lost @ lost)


@pytest.mark.parametrize(
    ("machines", "loss", "C", "pools"),
    [
        (1, "hinge", 1.0, True),
        (2, "hinge", 0.1, True),
        (3, "hinge", 1.0, True),
        (3, "squared_hinge", 1.0, True),
        (2, "hinge", 10.0, True),
        (2, "hinge", 0.1, False),
        (3, "squared_hinge", 1.0, False),
    ],
)
def test_the_optimum_of_one_machine_with_its_certificate(dataset, problem, tmp_path, machines, loss, C, pools):
    done, seen, _ = coordinate(dataset, tmp_path, machines, loss=loss, C=C, max_passes=1000, pools=pools)
    found = done.convergence.certificate
    P = objective(*problem, input_w(dataset, done.w[:, 0]), C, loss)
    assert done.convergence.stop_reason == "relative_gap"
    assert pytest.approx(found.primal_objective[0], rel=1e-6) == P  # values are float32
    assert P - found.dual_objective[0] <= 1.1e-5 * P
    assert found.w_error[0] < 1e-6
    duals = [float(D[0]) for D, *_ in seen]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(duals))
    assert all(D <= P for D in duals)


def test_lanes_are_each_at_their_optimum(dataset, problem, tmp_path):
    values = [0.01, 0.1, 0.3, 1.0, 2.0, 3.0]
    done, seen, plan = coordinate(dataset, tmp_path, 2, C=values, max_passes=2000)
    assert plan.tasks.width == 8
    for lane, C in enumerate(values):
        P = objective(*problem, input_w(dataset, done.w[:, lane]), C, "hinge")
        assert P - done.convergence.certificate.dual_objective[lane] <= 1.1e-5 * P, C
    assert all((D <= P + 1e-9).all() for D, P, *_ in seen)


def test_a_lane_takes_as_many_rounds_as_alone_after_the_others_have_converged(dataset, tmp_path):
    alone, *_ = coordinate(dataset, tmp_path / "alone", 2, C=3.0, max_passes=2000)
    beside = [C / 1e4 for C in range(1, 9)]  # for these the first rounds are enough
    lanes, *_ = coordinate(dataset, tmp_path / "lanes", 2, C=[*beside, 3.0], max_passes=2000)
    assert lanes.convergence.round <= 1.5 * alone.convergence.round
    assert lanes.convergence.certificate.w_error.max() < 1e-6


def test_a_pool_with_room_for_some_of_the_rows(tmp_path):
    X, y = random_problem(n_rows=6000, n_features=2000, row_length=60, seed=4)
    dataset = make_blocks(tmp_path / "dataset", X, y, 2)
    done, seen, _ = coordinate(dataset, tmp_path, 2, relative_gap=1e-4, pool_bytes=1 << 20)
    assert done.convergence.stop_reason == "relative_gap"
    P = objective(X, y, input_w(dataset, done.w[:, 0]), 1.0, "hinge")
    assert P - done.convergence.certificate.dual_objective[0] <= 1.1e-4 * P
    pooled = [rows for *_, rows in seen]
    assert 1800 < max(pooled) < 2200  # as many as a MiB has room for; more do not rest
    assert sum(pooled) > 6000


def test_a_pool_that_takes_nothing_is_made_smaller_and_rounds_go_on(dataset, problem, tmp_path, monkeypatch):
    asked = []

    def refuse(_, w, converged, share, is_interrupted):
        asked.append(share)
        return {}

    monkeypatch.setattr("streamsvm.trainer.distributed.pool.Pool.train", refuse)
    done, seen, _ = coordinate(dataset, tmp_path, 2, relative_gap=1e-3, pool_bytes=1 << 20)
    assert done.convergence.stop_reason == "relative_gap"
    assert asked and done.lacked_room
    assert done._pool.most_bytes == (1 << 20) >> len(asked)
    assert not any(rows for *_, rows in seen)
    P = objective(*problem, input_w(dataset, done.w[:, 0]), 1.0, "hinge")
    assert P - done.convergence.certificate.dual_objective[0] <= 1.1e-3 * P


@pytest.mark.parametrize("features", [["idf"], ["scale", {"fourier": {"dimension": 64, "gamma": 1.0}}]])
def test_feature_maps_are_fitted_to_all_rows(dataset, tmp_path, features):
    done, *_ = coordinate(dataset, tmp_path / "two", 2, features=features, max_passes=1000)
    one, *_ = coordinate(dataset, tmp_path / "one", 1, features=features, max_passes=1000)
    found = [float(each.convergence.certificate.primal_objective[0]) for each in (done, one)]
    assert found[0] == pytest.approx(found[1], rel=2e-5)


def test_averaging_is_one_round_and_is_certified_for_what_it_is(dataset, tmp_path):
    done, seen, _ = coordinate(dataset, tmp_path, 3, combine="average")
    found = done.convergence.certificate
    assert len(seen) == 1
    assert has_met_goal({"converged": False, "stop_reason": done.convergence.stop_reason})
    gap = 1 - found.dual_objective[0] / found.primal_objective[0]
    assert 1e-4 < gap < 0.5


def test_what_is_averaged_has_been_trained_to_the_end(dataset, tmp_path):
    done, *_ = coordinate(dataset, tmp_path, 1, combine="average", C=10.0, relative_gap=1e-6)
    found = done.convergence.certificate
    assert 1 - found.dual_objective[0] / found.primal_objective[0] < 1e-5


def test_rounds_end_when_there_have_been_enough(dataset, tmp_path):
    done, *_ = coordinate(dataset, tmp_path, 2, tolerance=1e-9, relative_gap=None, max_passes=3)
    assert (done.convergence.stop_reason, done.convergence.round) == ("max_passes", 3)
    assert done.convergence.certificate is not None


class Late(Around):
    """The second machine's messages come so many looks later than they are there."""

    def __init__(self, machines, looks):
        super().__init__(machines)
        self._looks, self._held, self._waited = looks, {}, defaultdict(int)

    def wait(self, pending, seconds):
        found = self._machines.wait(pending, min(seconds, 0.02))
        self._held.update({k: found.pop(k) for k in list(found) if k == 1})
        if 1 in self._held and 1 in pending:
            self._waited[1] += 1
            if self._waited[1] >= self._looks:
                self._waited[1] = 0
                found[1] = self._held.pop(1)
        return found


def test_a_machine_that_is_late_is_not_waited_for_and_its_change_counts_later(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("streamsvm.service.cluster.rounds.coordinator._LEAST_PATIENCE", 0.02)
    monkeypatch.setattr("streamsvm.service.cluster.rounds.coordinator._PATIENCE", 0.0)
    done, seen, _ = coordinate(dataset, tmp_path, 2, wrap=lambda machines: Late(machines, 5), max_passes=600)
    assert done.convergence.stop_reason == "relative_gap"
    assert done.convergence.certificate.w_error[0] < 1e-6
    duals = [float(D[0]) for D, *_ in seen]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(duals))


class Losing(Around):
    """The first machine dies in some rounds: what it says then is what it brings with it when it begins anew."""

    def __init__(self, machines, rounds):
        super().__init__(machines)
        self._rounds, self._round = set(rounds), 0

    def send(self, numbers, order, alpha):
        if 0 in numbers and self.dies_at(order, alpha):
            self._machines.restart(0)
            numbers = numbers - {0}
        self._machines.send(numbers, order, alpha)

    def dies_at(self, order, alpha):
        self._round += 1
        return self._round in self._rounds


class LosingOn(Losing):
    """The first machine dies when it is told to give rows, or what has come of them, for the n-th time."""

    def __init__(self, machines, work, nth):
        super().__init__(machines, [])
        self._work, self._left = work, nth

    def dies_at(self, order, alpha):
        if order.work is not self._work or (order.work is Activity.LOOK and 0 not in alpha):
            return False
        self._left -= 1
        return self._left == 0


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("loses", "restarts"),
    [
        (partial(Losing, rounds=[3, 7, 8, 15]), 3),
        *((partial(LosingOn, work=Activity.GIVE, nth=nth), 1) for nth in (1, 2)),
        (partial(LosingOn, work=Activity.LOOK, nth=1), 1),
    ],
)
def test_a_machine_that_begins_anew_changes_the_time_and_not_the_certificate(dataset, tmp_path, loses, restarts, keeps):
    """Also one that dies while its rows are pooled."""
    losing = []

    def wrap(machines):
        machines.keeps = keeps
        losing.append(loses(machines))
        return losing[0]

    done, *_ = coordinate(dataset, tmp_path, 2, wrap=wrap, max_passes=3000)
    assert done.convergence.stop_reason == "relative_gap"
    assert done.convergence.certificate.w_error[0] < 1e-6
    assert losing[0].restarts >= restarts


def test_shards_are_all_blocks_once_and_nearly_even(dataset):
    manifest = read_manifest(dataset)
    for machines in (1, 2, 3, 8):
        shards = deal(manifest, machines)
        assert sorted(block.number for each in shards for block in each.manifest.blocks) == sorted(
            block.number for block in manifest.blocks
        )
        assert sum(each.manifest.n_rows for each in shards) == manifest.n_rows
        nnz = [each.manifest.nnz for each in shards]
        assert max(nnz) - min(nnz) <= max(block.nnz for block in manifest.blocks)
        assert len({each.name for each in shards}) == machines


def test_more_machines_than_blocks_are_refused(dataset):
    with pytest.raises(ServiceError, match="blocks"):
        deal(read_manifest(dataset), 65)


@pytest.mark.parametrize(
    "fields",
    [{"loss": "logistic"}, {"loss": "epsilon_insensitive"}, {"loss": "squared_hinge", "class_weight": {"-1": 3.0}}],
    ids=str,
)
def test_rounds_with_whole_steps_end_certified_and_D_never_falls(dataset, tmp_path, fields):
    done, seen, _ = coordinate(dataset, tmp_path, 2, relative_gap=1e-4, max_passes=300, steps=False, **fields)
    assert done.convergence.stop_reason == "relative_gap"
    assert done.convergence.certificate.w_error[0] < 1e-6
    duals = [float(D[0]) for D, *_ in seen]
    assert all(after >= before - 1e-6 * abs(before) for before, after in pairwise(duals))
    assert duals[-1] <= done.convergence.certificate.primal_objective[0]
    assert all(step == 1.0 for _, _, step, _ in seen)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5]), st.sampled_from([1, 4]))
def test_the_step_is_the_best_of_many(seed, D, lanes):
    rng = np.random.default_rng(seed)
    Z, alpha, change = rng.standard_normal((12, 5)), rng.random((12, lanes)), rng.standard_normal((12, lanes)) / 4
    w, w_change = Z.T @ alpha, Z.T @ change

    def dual(step):
        moved = alpha + step * change
        return moved.sum(0) - D * (moved**2).sum(0) / 2 - ((Z.T @ moved) ** 2).sum(0) / 2

    linear, square = change.sum(0) - D * (alpha * change).sum(0), D * (change**2).sum(0)
    step = best_step(w, w_change, linear, square)
    others = np.max([dual(k) for k in np.linspace(0, 1, 101)], axis=0)
    assert (dual(step) >= others - 1e-12).all()
    assert ((step >= 0) & (step <= 1)).all()


def test_nothing_changed_is_a_whole_step():
    assert best_step(np.ones((3, 1)), np.zeros((3, 1)), np.zeros(1), np.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("shape", [(1000, 1), (250, 4)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.9])
def test_a_change_is_sent_whole_or_by_place_whichever_is_smaller(shape, share):
    rng = np.random.default_rng(1)
    difference = np.where(rng.random(shape) < share, rng.standard_normal(shape), 0.0)
    sent, total = Change.of(difference), np.ones(shape)
    sent.add_to(total)
    assert np.allclose(total, 1.0 + difference, atol=1e-6)
    assert (sent.indices is None) == (share == 0.9)
    assert sent.values.nbytes + (0 if sent.indices is None else sent.indices.nbytes) <= 4 * difference.size


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The coordinator of a job of one round."""
    directory = tmp_path_factory.mktemp("job")
    dataset = make_blocks(directory / "data", *random_problem(300), 2)
    return coordinate(dataset, directory, 2, max_passes=1, relative_gap=None)[0]


def told(line):
    return [each["code"] for each in json.loads(line).get("slowdowns", ())]


def test_faster_ways_that_a_machine_gives_up_are_told_once(done, tmp_path):
    reports = io.StringIO()
    state = create_state(tmp_path, 300, len(done.w))
    reporter = Reporter(state, 0, 0, MACHINES, reports)
    for part in done.shards:
        assert "slowdowns" in part.counts
        part.counts["slowdowns"] = 0
    reporter.report(done)
    done.shards[1].counts["slowdowns"] = bits_of({"disk_slow"})
    reporter.report(done)
    done.lacked_room = True
    done.shards[0].counts["slowdowns"] = bits_of({"disk_slow", "cache_on_disk"})
    reporter.report(done)
    found = [told(line) for line in reports.getvalue().splitlines()]
    assert found == [[], ["disk_slow"], ["cache_on_disk", "pool_without_room"]]
    assert state.control["slowdowns"] == bits_of({"disk_slow", "cache_on_disk", "pool_without_room"})
