"""What a job of several lanes leaves when it ends, and that one which continues it comes to the same bytes."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.continuing import continued_spec, drop_unsound, has_checkpoint, inherit, may_go_on
from streamsvm.service.jobs.lanes.lane_files import (
    abouts_of,
    begun_last,
    checkpoint_place,
    keep_outcomes,
    outcome_of,
    settle_lanes,
    training_accuracy,
)
from streamsvm.service.jobs.lanes.runner import lane_about, lane_outcome
from streamsvm.service.jobs.lanes.warm_start import begin_lane
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.processes.run import prepare_run
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.run.checkpoint import SLOTS
from tests.contracts.problems import libsvm_text, random_problem, smallest_cache
from tests.refusals import refused
from tests.training import about_to_begin

CLASSES, VALUES = (0.0, 1.0, 2.0, 5.0), [0.1, 1.0, 10.0]
SPEC = {
    "dataset": "data", "C": VALUES, "pace": "fixed", "tolerance": 0.03, "max_passes": 15,
    "cache_bytes": smallest_cache(), "checkpoint_seconds": 1e-9,
}  # fmt: skip
GROUPS = [("streamsvm", 4), ("streamsvm", 12), ("bm", 1)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    X, _ = random_problem(300, 60)
    rng, directory = np.random.default_rng(3), tmp_path_factory.mktemp("data") / "data"
    scores = X @ rng.normal(size=(60, 4)) + rng.normal(0, 0.3, (300, 4))
    ingest([libsvm_text(X, np.array(CLASSES)[scores.argmax(axis=1)])], directory)
    return directory


class Jobs:
    """Jobs on the dataset, their lanes trained in this process, so many at once."""

    def __init__(self, directory, dataset, solver, at_once, **spec):
        self.directory, self._dataset = directory, dataset
        spec = parse_spec({**SPEC, "solver": solver, **spec})
        self._plan = replace(plan_job(spec, Dataset(dataset).manifest, cores=1), at_once=at_once)
        self.trained = []  # of each attempt: number of its first lane, passes it made

    def record(self, job, continues=None, state="stopped"):
        return {"id": job, "continues": continues, "state": state, "spec": self._plan.spec.model_dump()}

    def run(self, job, stop_at=None, is_cancelled=False):
        """Lanes after lanes; `stop_at` is how many passes come before the end. Whether it is complete."""
        job_dir = self.directory / job
        job_dir.mkdir(exist_ok=True)
        n_passes = 0
        while len(done := abouts_of(job_dir)) < len(self._plan.lanes):
            plan = self._plan.next_lanes(done)
            lane_dir = checkpoint_place(job_dir, plan)
            begins = partial(begin_lane, plan=plan, job_dir=job_dir) if plan.number else None
            run = self.directory / f"run{len(self.trained)}"
            prepare_run(run, plan, self._dataset, lane_dir, begins)
            self.trained.append([plan.number, 0])
            with about_to_begin(run) as (trainer, _):
                while trainer.stop_reason is None:
                    if n_passes == stop_at and is_cancelled:
                        return False
                    trainer._state.control["stop"] = n_passes + 1 == stop_at and not is_cancelled
                    trainer.step()
                    n_passes += 1
                    self.trained[-1][1] += 1
                trainer.shutdown()
                results = trainer.results()
            keep_outcomes(
                job_dir, plan, run, partial(lane_outcome, plan, self._dataset, run, results),
                partial(lane_about, plan, run, results),
            )  # fmt: skip
            if trainer.stop_reason == "stopped":
                return False
        return True

    def end(self, job, is_complete=False):
        settle_lanes(self.directory / job, is_complete)

    def inherit(self, job, other):
        (self.directory / job).mkdir()
        inherit(self.directory, self.record(job, other))

    def contents(self, job):
        outcomes = [outcome_of(self.directory / job, number) for number in range(len(self._plan.lanes))]
        return [(each.w.tobytes(), each.about["result"], each.about["job_passes"]) for each in outcomes]

    def accuracies(self, job):
        """Return that of each C's model on the rows of training; None: one run has trained all of its classes."""
        numbers = [self._plan.lanes_of(C, len(self._plan.lanes)) for C in VALUES]
        return [training_accuracy(self.directory / job, self._plan, each) for each in numbers]

    @property
    def passes(self):
        return sum(passes for _, passes in self.trained)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, dataset):
    """Makes the job `whole` of a group, of which all lanes are trained in one go, once."""

    @cache
    def make(solver, at_once):
        jobs = Jobs(tmp_path_factory.mktemp("whole"), dataset, solver, at_once)
        assert jobs.run("whole")
        return jobs

    return make


@pytest.mark.parametrize(
    ("solver", "at_once", "is_cancelled", "share"),
    [
        (*GROUPS[0], False, 0.3),
        (*GROUPS[1], False, 0.8),
        (*GROUPS[2], False, 0.8),
        (*GROUPS[0], True, 0.8),
        *(pytest.param(*group, True, 0.3, marks=pytest.mark.slow) for group in GROUPS[1:]),
    ],
)
def test_it_ends_in_the_bytes_of_a_job_that_was_not_disturbed(
    tmp_path, dataset, undisturbed, solver, at_once, is_cancelled, share
):
    whole = undisturbed(solver, at_once)
    expected, n_passes = whole.contents("whole"), whole.passes
    assert len(expected) == 12 and any(result["converged"] for _, result, _ in expected)
    jobs = Jobs(tmp_path, dataset, solver, at_once)
    assert not jobs.run("first", max(2, int(share * n_passes)), is_cancelled)
    jobs.end("first")
    assert may_go_on(jobs.directory / "first")
    jobs.inherit("second", "first")
    jobs.inherit("third", "first")
    begun = begun_last(jobs.directory / "second")
    assert jobs.trained[-1][0] == begun == len(abouts_of(jobs.directory / "second"))
    assert jobs.run("second")
    assert jobs.contents("second") == expected
    assert jobs.accuracies("second") == whole.accuracies("whole")
    assert all((accuracy is None) == (at_once == 12) for accuracy in whole.accuracies("whole"))
    assert begun_last(jobs.directory / "third") == begun  # and could go on from there once more
    # None was made twice, but what came after the last checkpoint.
    assert n_passes <= jobs.passes <= n_passes + 1


@pytest.mark.parametrize(("solver", "at_once", "lost"), [("bm", 1, [0, 5]), ("streamsvm", 4, [1, 4])])
def test_lanes_trained_again_come_to_the_same(tmp_path, dataset, undisturbed, solver, at_once, lost):
    """Also those that had begun where others ended, of which the checkpoint has gone since."""
    whole, jobs = undisturbed(solver, at_once), Jobs(tmp_path, dataset, solver, at_once)
    assert not jobs.run("job", stop_at=int(0.8 * whole.passes), is_cancelled=True)
    for number in lost:
        lane = tmp_path / "job" / "lanes" / f"{number:04d}"
        if (lane / "model").exists():
            (lane / "model" / "w.npy").write_bytes(b"")
    drop_unsound(tmp_path / "job", jobs._plan)
    assert jobs.run("job")
    assert jobs.contents("job") == whole.contents("whole") and jobs.accuracies("job") == whole.accuracies("whole")


@pytest.mark.parametrize(("solver", "at_once"), [GROUPS[0], GROUPS[2]])
def test_lanes_that_are_sound_are_not_trained_again(tmp_path, dataset, solver, at_once):
    jobs = Jobs(tmp_path, dataset, solver, at_once)
    assert not jobs.run("job", stop_at=10, is_cancelled=True)
    done = len(abouts_of(tmp_path / "job"))
    drop_unsound(tmp_path / "job", jobs._plan)
    assert len(abouts_of(tmp_path / "job")) == done


def test_what_stays_is_what_is_needed(tmp_path, dataset):
    jobs = Jobs(tmp_path, dataset, "streamsvm", 4)
    jobs.run("job", stop_at=20)
    begun, lanes = begun_last(tmp_path / "job"), tmp_path / "job" / "lanes"
    assert begun in (4, 8) and (lanes / f"{begun + 1:04d}" / "model").exists()
    jobs.end("job")
    assert {path.name for path in lanes.iterdir()} == {f"{number:04d}" for number in range(begun + 1)}
    assert {path.name for path in (lanes / f"{begun:04d}").iterdir()} <= set(SLOTS)
    assert len(abouts_of(tmp_path / "job")) == begun and not has_checkpoint(lanes / "0000")
    jobs.end("job")  # once more, as after a crash
    assert begun_last(tmp_path / "job") == begun
    jobs.end("job", is_complete=True)
    assert not lanes.exists() and not may_go_on(tmp_path / "job")


def test_lanes_that_are_all_trained_together_may_end_elsewhere(tmp_path, dataset):
    """As those of one lane; what has converged goes on, too."""
    spec = {"tolerance": None, "relative_gap": 1e-3}
    jobs = Jobs(tmp_path, dataset, "streamsvm", 12, **spec, max_passes=12)
    assert jobs.run("whole")
    short = Jobs(tmp_path, dataset, "streamsvm", 12, **spec, max_passes=4)
    short.trained = jobs.trained
    assert short.run("short")
    short.end("short", is_complete=True)
    record = short.record("short", state="succeeded")
    assert continued_spec(tmp_path, record, {"max_passes": 12}).max_passes == 12
    jobs.inherit("long", "short")
    assert jobs.run("long")
    assert jobs.contents("long") == jobs.contents("whole")


def test_what_cannot_go_on_is_refused(tmp_path, dataset):
    jobs = Jobs(tmp_path, dataset, "bm", 1)
    jobs.run("job", stop_at=20)
    jobs.end("job")
    record = jobs.record("job")
    assert begun_last(tmp_path / "job") > 0
    with pytest.raises(ServiceError) as caught:
        continued_spec(tmp_path, record, {"max_passes": 200})
    assert caught.value.code == "not_possible" and "lanes are done" in caught.value.message and caught.value.hint
    assert continued_spec(tmp_path, record, {}).C == VALUES
    jobs.end("job", is_complete=True)
    with pytest.raises(ServiceError) as caught:
        continued_spec(tmp_path, record, {})
    assert caught.value.code == "not_possible" and "no checkpoint" in caught.value.message
    with refused(ServiceError, "checkpoint_lost"):
        jobs.inherit("other", "job")


def test_so_many_lanes_as_memory_had_room_for(tmp_path, dataset):
    """The job that goes on has the bound of the other, by which its lanes were divided."""
    jobs = Jobs(tmp_path, dataset, "bm", 1)
    jobs.run("job", stop_at=5)
    record = jobs.record("job")
    record["spec"]["memory_bytes"] = 1 << 30
    assert continued_spec(tmp_path, record, {}).memory_bytes == 1 << 30
