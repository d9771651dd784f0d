"""However Newton steps end, the model has the best w that they have come to, and training goes on from alpha's w."""

import shutil
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.trainer.newton import task
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.scans import Interrupted
from streamsvm.trainer.newton.system import TooLarge
from streamsvm.trainer.shared_state import HandedBack
from tests.contracts.problems import make_dataset
from tests.reference.newton import Problem, primal
from tests.service.cluster.coordinating import input_w
from tests.trainer.test_resume import Job
from tests.training import Turns

N, D, C = 300, 8, 1e4
SETTINGS = {"pace": "adaptive", "tolerance": None, "relative_gap": 1e-10, "max_passes": 3, "C": C, "holds_all": True}


@pytest.fixture(scope="module")
def problem():
    """Columns on different scales, and classes that overlap: the w of a centre's alpha is worth little for long."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) * 10.0 ** np.linspace(-1, 3, D)).astype(np.float32)
    return X, np.where(X @ (1.0 / X.std(axis=0)) + 4.0 * rng.standard_normal(N) > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, problem):
    return make_dataset(tmp_path_factory.mktemp("data") / "data", sparse.csr_matrix(problem[0]), problem[1])


class EndsAfter(Turns):
    """Ends the job in some way after so many Newton steps."""

    def __init__(self, steps, *args):
        self.left = steps
        super().__init__(*args)

    def show_step(self, step):
        super().show_step(step)
        self.left -= 1
        if self.left == 0:
            self.end()


class TimeIsUp(EndsAfter):
    @property
    def elapsed_seconds(self):
        return 0.0 if self.left > 0 else 1e9

    def end(self):
        pass


class Stopped(EndsAfter):
    def end(self):
        self.control["stop"] = 1


class WorkerEnds(EndsAfter):
    def end(self):
        self.control["hand_back"] = 1


def all_rows(problem, loss):
    return Problem(loss, problem[0].astype(float), problem[1], np.full(N, C))


def steps_of(found):
    return [step for done in found.passes for step in done.get("newton", ())]


def check(found, dataset, whole, gap=1e-9):
    """The model has the P that is told, and no w of a step had a P better by more than the gap. Returns P."""
    told = found.result["certificate"]["primal_objective"]
    assert primal(whole, input_w(dataset, found.w)) == pytest.approx(told, rel=1e-9)
    assert steps_of(found) and told <= min(step["primal_bound"] for step in steps_of(found)) * (1 + gap)
    return told


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize(("way", "reason"), [(TimeIsUp, "max_seconds"), (Stopped, "stopped")])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_job_that_is_ended_has_the_best_w(tmp_path, problem, dataset, loss, way, reason, steps):
    job, whole = Job(tmp_path, dataset, **SETTINGS, loss=loss, max_seconds=1e6), all_rows(problem, loss)
    found = job.train(partial(way, steps))
    assert found.result["stop_reason"] == reason
    first = check(found, dataset, whole)
    # A job that goes on from there and is ended soon is no worse; another one comes to the optimum.
    shutil.rmtree(tmp_path / "run")
    again = Job(tmp_path, dataset, **SETTINGS, loss=loss, max_seconds=2e6)
    found = again.train(partial(way, 1))
    assert check(found, dataset, whole) <= first * (1 + 1e-9)
    assert not found.state.control["w_unverified"]  # the checkpoint has the w of alpha
    last = Job(tmp_path, dataset, **{**SETTINGS, "relative_gap": 1e-6, "loss": loss, "max_seconds": 1e12}).attempt()
    assert last.result["stop_reason"] == "relative_gap" and last.result["certificate"]["w_error"] <= 1e-7
    assert last.result["certificate"]["primal_objective"] <= first * (1 + 1e-6)


def gives_up(monkeypatch):
    monkeypatch.setattr(task, "_MOST_STEPS", 2)


def has_no_room(monkeypatch):
    raises_at(monkeypatch, 3, TooLarge)


def loses_its_store(monkeypatch):
    raises_at(monkeypatch, 3, Interrupted)


def raises_at(monkeypatch, nth, error):
    answer, asked = OwnRows.answer, []

    def failing(self, request):
        asked.extend(request.sums)
        if len(asked) >= nth:
            raise error
        return answer(self, request)

    monkeypatch.setattr(OwnRows, "answer", failing)


def no_check_succeeds(monkeypatch):
    """Rounding keeps w and the w of alpha apart."""
    monkeypatch.setattr(task, "_MOST_CHECKS", 1)


@pytest.mark.parametrize("fault", [gives_up, has_no_room, loses_its_store, no_check_succeeds])
def test_steps_that_lead_no_further_leave_the_best_w(tmp_path, monkeypatch, problem, dataset, fault):
    """Sweeps follow, which are far from as good a w when the job ends."""
    fault(monkeypatch)
    gap = 1e-2 if fault is no_check_succeeds else 1e-10
    found = Job(tmp_path, dataset, **{**SETTINGS, "max_passes": 2, "relative_gap": gap}).attempt()
    assert found.result["stop_reason"] == ("relative_gap" if fault is no_check_succeeds else "max_passes")
    check(found, dataset, all_rows(problem, "hinge"), 1e-2 if fault is no_check_succeeds else 1e-9)


def test_a_job_that_is_handed_back_goes_on_with_the_best_w(tmp_path, problem, dataset):
    job, whole = Job(tmp_path, dataset, **SETTINGS, max_seconds=1e6), all_rows(problem, "hinge")
    with pytest.raises(HandedBack):
        job.train(partial(WorkerEnds, 3))
    bound = newest_checkpoint(job.checkpoints).about["control"]["primal_bound"]
    assert check(job.train(partial(TimeIsUp, 1)), dataset, whole) <= bound * (1 + 1e-9)


def test_a_worker_that_dies_before_it_makes_the_model_leaves_the_best_w(tmp_path, problem, dataset):
    job, whole = Job(tmp_path, dataset, **SETTINGS, max_seconds=1e6), all_rows(problem, "hinge")
    first = check(job.train(partial(TimeIsUp, 3)), dataset, whole)
    found = job.attempt()  # the checkpoint says that training has ended
    assert not found.passes and found.result["stop_reason"] == "max_seconds"
    assert found.result["certificate"]["primal_objective"] == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize("way", [TimeIsUp, Stopped])
def test_each_lane_has_its_best_w(tmp_path, dataset, way):
    lanes = {"lanes": True, "folds": 2, "max_seconds": 1e6}
    found = Job(tmp_path, dataset, **{**SETTINGS, **lanes}).train(partial(way, 3))
    assert steps_of(found) and len(found.results) == 3
    for result, bound in zip(found.results, found.state.lanes["primal_bound"], strict=False):
        assert result["certificate"]["primal_objective"] <= bound * (1 + 1e-9)
