"""Newton steps over the rows of several machines: as many scans as on one, and the same optimum; machines that die."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from streamsvm.service.cluster.dataset.shards import deal
from streamsvm.service.cluster.process import leave_checkpoint, model_of
from streamsvm.service.cluster.rounds.newton import equations_here
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.storage.run.state import create_state
from streamsvm.trainer.checkpoints import CheckpointSlots
from streamsvm.trainer.distributed.messages import Activity
from streamsvm.trainer.newton.system import LARGEST, TooLarge
from tests.contracts.problems import make_blocks
from tests.reference.newton import Problem, primal
from tests.service.cluster.coordinating import Around, coordinate, input_w

N, D, BLOCKS = 480, 6, 8
SCALES = 10.0 ** np.linspace(-1, 2, D)
FIELDS = {"bias": 1.0, "relative_gap": 1e-9, "max_passes": 30}


@pytest.fixture(scope="module")
def problem():
    """Columns on different scales: sweeps take thousands, and so do rounds."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) * SCALES).astype(np.float32)
    return X, np.where(X @ (rng.standard_normal(D) / SCALES) + rng.standard_normal(N) > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, problem):
    return make_blocks(tmp_path_factory.mktemp("data") / "dataset", *problem, BLOCKS)


@pytest.fixture(autouse=True)
def is_taken(monkeypatch):
    """Newton steps follow as soon as rates are known: this is not about prices."""
    monkeypatch.setattr("streamsvm.service.cluster.rounds.newton.is_newton_quicker_than_rounds", lambda *_: True)


def optima(dataset, problem, done, plan):
    """P of the whole problem at the w of each lane."""
    X, y = problem
    X = np.hstack([X.astype(float), np.ones((N, 1))])
    found = []
    for place, lane in enumerate(plan.running):
        w = input_w(dataset, done.model_w[:, place].copy(), D)
        C = np.where(y > 0, lane.C_positive, lane.C_negative)
        found.append(primal(Problem(plan.spec.loss, X, y, C, 0.1), w))
    return np.array(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"C": [1.0, 100.0]},
        {"loss": "squared_hinge", "C": 10.0, "class_weight": {"1": 2.0}},
        {"loss": "epsilon_insensitive", "C": 10.0},
    ],
    ids=str,
)
def test_any_number_of_machines_takes_as_many_scans_to_the_same_optimum(dataset, problem, tmp_path, fields):
    scans, P = [], []
    for machines in (1, 4):
        done, _, plan = coordinate(dataset, tmp_path / str(machines), machines, **FIELDS, **fields)
        assert done.convergence.stop_reason == "relative_gap"
        found = done.convergence.certificate
        assert (found.w_error < 1e-9).all()
        P.append(optima(dataset, problem, done, plan))
        assert np.allclose(P[-1], found.primal_objective, rtol=1e-9)
        scans.append(done.newton.scans)
    assert np.allclose(P, P[0], rtol=1e-8)
    assert max(scans) <= 1.2 * min(scans) + 2  # they begin where different rounds have ended


class Losing(Around):
    """The first machine dies when it is given the n-th order of Newton steps."""

    def __init__(self, machines, nth):
        super().__init__(machines)
        self._left = nth

    def send(self, numbers, order, alpha):
        if 0 in numbers and order.work is Activity.NEWTON:
            self._left -= 1
            if self._left == 0:
                self._machines.restart(0)
                numbers = numbers - {0}
        self._machines.send(numbers, order, alpha)


@pytest.mark.parametrize(("nth", "keeps"), [(1, True), (2, True), (25, False), (50, True)])
def test_a_machine_that_dies_within_begins_anew_and_the_job_ends_certified(dataset, tmp_path, nth, keeps):
    losing = []

    def wrap(machines):
        machines.keeps = keeps
        losing.append(machines)
        return Losing(machines, nth)

    done, _, _ = coordinate(dataset, tmp_path, 3, wrap=wrap, C=100.0, **FIELDS)
    assert losing[0].restarts == 1
    assert done.convergence.stop_reason == "relative_gap"
    found = done.convergence.certificate
    assert found.primal_objective[0] - found.dual_objective[0] <= 1e-9 * found.primal_objective[0]
    assert found.w_error[0] < 1e-9


class Died(Exception):
    """Raised where the coordinator dies."""


class Keeping(Around):
    """Machines that keep alpha after each step; the coordinator dies after the n-th."""

    def __init__(self, nth, machines):
        super().__init__(machines)
        self._left = nth

    def keep(self, come):
        for number, begin in enumerate(self._machines._begins):
            self._machines.ask(number, "keep_own", begin.job, begin.shard)
        self._left -= come[0].newton is not None
        if not self._left:
            raise Died


def test_a_coordinator_that_dies_within_begins_anew_with_what_the_machines_have_kept(dataset, tmp_path):
    fields = {"C": [1.0, 100.0], **FIELDS}
    undisturbed, *_ = coordinate(dataset, tmp_path / "undisturbed", 3, **fields)
    nth = undisturbed.newton.steps - 2
    with pytest.raises(Died):
        coordinate(dataset, tmp_path, 3, wrap=partial(Keeping, nth), **fields)
    done, seen, _ = coordinate(dataset, tmp_path, 3, before=(1, 1.0), **fields)
    assert done.convergence.stop_reason == "relative_gap" and (done.convergence.certificate.w_error < 1e-9).all()
    P = undisturbed.convergence.certificate.primal_objective
    assert np.allclose(done.convergence.certificate.primal_objective, P, rtol=1e-8)
    assert (seen[0][0] >= 0.99 * P).all()  # the first round begins where the last step ended
    assert done.newton.steps < undisturbed.newton.steps


@pytest.mark.parametrize("features", [["scale"], ["scale", "pairs"]], ids=str)
def test_feature_maps_are_applied_on_the_way(dataset, tmp_path, features):
    P = []
    for machines in (1, 3):
        done, *_ = coordinate(dataset, tmp_path / str(machines), machines, features=features, C=100.0, **FIELDS)
        assert done.convergence.stop_reason == "relative_gap" and done.newton.steps
        assert done.convergence.certificate.w_error[0] < 1e-9
        P.append(done.convergence.certificate.primal_objective[0])
    assert P[0] == pytest.approx(P[1], rel=2e-9)


@pytest.mark.parametrize("C", [1.0, [1.0, 100.0]])
def test_a_job_is_stopped_while_a_system_is_solved(dataset, problem, tmp_path, C):
    """The coordinator has said how long it may be silent; the models have the best w that there was."""
    told = []
    done, seen, plan = coordinate(
        dataset, tmp_path, 2, attend=lambda _, silence: told.append(silence),
        is_stopping=lambda: sum(silence > 0.0 for silence in told) >= 4, C=C, **FIELDS,
    )  # fmt: skip
    assert done.convergence.stop_reason == "stopped" and 0 < done.newton.steps < 5
    check_best(dataset, problem, done, seen, plan)


def check_best(dataset, problem, done, seen, plan):
    """The models have the P that is told, and no w of a step had a better one."""
    P = done.convergence.certificate.primal_objective
    assert np.allclose(optima(dataset, problem, done, plan), P, rtol=1e-9)
    shown = [step.found.lanes or (step.found,) for step in seen.steps]
    best = np.min([[lane.primal_bound for lane in lanes] for lanes in shown], axis=0)
    assert np.all(P / best <= 1 + 1e-9)


@pytest.mark.parametrize("C", [100.0, [1.0, 100.0]])
@pytest.mark.parametrize("loses", [False, True])
def test_a_job_whose_time_is_up_has_the_best_w(dataset, problem, tmp_path, C, loses):
    """Also if a machine dies then, and w has to be made of the alpha of all machines anew."""
    fields = stopping_after(4)
    if loses:
        counted = fields["wrap"]
        fields["wrap"] = lambda machines: Losing(counted(machines), 14)
    done, seen, plan = coordinate(dataset, tmp_path, 2, C=C, **fields, **FIELDS)
    assert done.convergence.stop_reason == "stopped" and done.newton.steps
    check_best(dataset, problem, done, seen, plan)


class StoppingAfter(Around):
    """Machines whose job is to stop after so many steps."""

    def __init__(self, steps, machines):
        super().__init__(machines)
        self.left = steps

    def keep(self, come):
        self.left -= come[0].newton is not None


def stopping_after(steps):
    """Arguments of `coordinate` for a job that is stopped after so many steps."""
    machines = []

    def wrap(threads):
        machines.append(StoppingAfter(steps, threads))
        return machines[0]

    return {"wrap": wrap, "is_stopping": lambda: machines[0].left <= 0}


@pytest.mark.parametrize("C", [100.0, [1.0, 100.0]])
def test_a_job_that_goes_on_has_the_w_of_models_that_was_kept(dataset, problem, tmp_path, C):
    """The w of alpha is far worse where steps were left on their way."""
    left = {}

    def leave(threads, plan, done):
        state = create_state(tmp_path, plan.n_rows, plan.width, True, plan.tasks.width)
        arrays = {"w": done.w, **done.model.resumable()}
        slots = CheckpointSlots(tmp_path, str(tmp_path), 0.0, 0)
        leave_checkpoint(threads, deal(plan.manifest, len(threads)), state, arrays, slots, lambda: None)
        checkpoint = newest_checkpoint(tmp_path)
        left.update(alpha=checkpoint["alpha"], model=model_of(str(checkpoint.path), len(plan.running)))

    first, *_ = coordinate(dataset, tmp_path / "first", 2, after=leave, C=C, **stopping_after(4), **FIELDS)
    at_once = {"is_stopping": lambda: True, "C": C, **FIELDS}
    forgetful, *_ = coordinate(dataset, tmp_path / "forgetful", 2, alpha=left["alpha"], **at_once)
    done, _, plan = coordinate(dataset, tmp_path / "second", 2, **left, **at_once)
    P, of_alpha, again = (each.convergence.certificate.primal_objective for each in (first, forgetful, done))
    assert (of_alpha > 1.01 * P).any()
    assert np.all(again <= P * (1 + 1e-9))
    assert np.allclose(optima(dataset, problem, done, plan), again, rtol=1e-9)


class Failing(Around):
    """Machines whose replies to the requests of steps are what `fail` makes of them."""

    def __init__(self, fail, machines):
        super().__init__(machines)
        self._fail = fail

    def wait(self, pending, seconds):
        found = self._machines.wait(pending, seconds)
        return {k: replace(each, newton=each.newton and self._fail(each.newton)) for k, each in found.items()}


def without_rows(_reply):
    return b""


def with_large_systems(reply):
    return pickle.dumps(TooLarge()) if pickle.loads(reply).systems else reply


@pytest.mark.parametrize("fail", [without_rows, with_large_systems])
def test_steps_that_never_come_about_are_given_up(dataset, tmp_path, fail):
    fields = FIELDS | {"relative_gap": 1e-2, "C": 1.0}
    done, _, _ = coordinate(dataset, tmp_path, 2, wrap=partial(Failing, fail), **fields)
    assert done.convergence.stop_reason == "relative_gap"
    assert (done.newton.steps, done.newton.slowdowns) == (0, {"newton_given_up"})
    assert done.convergence.certificate.w_error[0] < 1e-6


def test_history_has_steps_with_what_all_machines_added_up(dataset, tmp_path):
    done, seen, _ = coordinate(dataset, tmp_path, 2, C=[1.0, 100.0], **FIELDS)
    steps = seen.steps
    assert [step.number for step in steps] == list(range(1, done.newton.steps + 1))
    assert steps[-1].scans == done.newton.scans
    assert set(np.diff([step.scans for step in steps])) == {2}
    assert all(0 < step.largest.rows <= N and len(step.found.lanes) == 2 for step in steps)
    duals = [step.found.lanes[1].dual_objective for step in steps]
    assert (np.diff(duals) >= -1e-9 * duals[-1]).all()


def test_rounds_go_on_where_a_machine_has_no_room(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("streamsvm.service.jobs.plan.memory.equations_within", lambda *_: 0)
    done, _, _ = coordinate(dataset, tmp_path, 2, C=1.0, **FIELDS | {"relative_gap": 1e-2})
    assert done.convergence.stop_reason == "relative_gap"
    assert (done.newton.steps, done.newton.slowdowns) == (0, {"newton_without_room"})


def test_the_coordinator_has_room_for_what_all_machines_send():
    assert equations_here(1 << 50, 1, 3) == LARGEST
    of_two = equations_here(1 << 30, 1, 2)
    assert of_two > equations_here(1 << 30, 1, 8) > equations_here(1 << 30, 16, 8) > 1000
    assert of_two**2 * 4 * 2 < 1 << 30
