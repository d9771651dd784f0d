"""A job goes on from its checkpoint: to the byte where pace is fixed, and soundly in any case."""

import errno
import itertools
import json
import shutil
from functools import partial
from math import inf

import numpy as np
import pytest

import streamsvm.reader.stream.arrivals
import streamsvm.trainer.checkpoints
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.stream.process import Reader
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.models.support_vectors import packed, published_machine
from streamsvm.storage.run.checkpoint import newest_checkpoint, read_checkpoint, write_checkpoint
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.shared_state import HandedBack
from streamsvm.trainer.solvers import SOLVERS
from tests.contracts import bracketing
from tests.contracts.problems import in_small_pieces, make_dataset, random_problem, weighted_text
from tests.contracts.solver import (
    MODES,
    cache_for,
    check_certificate,
    exact,
    is_fast,
    is_reproducible,
    is_resident,
    is_sound,
    name_of,
)  # fmt: skip
from tests.training import CLOCKS, Outcome, Turns, open_state_of, to_the_end, write_run

PASSES = 3  # the first has as many sections as there are kills
WITHOUT_ALPHA = [
    {"solver": "cpa"}, {"solver": "cpa", "max_cuts": 3}, {"solver": "ocas"}, {"solver": "ocas", "threads": 2},
    {"solver": "pegasos"}, {"solver": "pegasos", "update": "block"},
    {"solver": "bsca", "budget": 20}, {"solver": "bsca", "budget": 20, "selection": "adaptive", "threads": 2},
    {"solver": "bsca", "budget": 20, "merge": "golden", "candidates": 3}, {"solver": "bsgd", "budget": 20},
]  # fmt: skip
# Rows on disk are not there any more after a crash: a job of pace "fixed" has none.
REPEATABLE = [mode for mode in MODES if is_reproducible(mode) and "on_disk" not in mode]
# A checkpoint has the same arrays of each loss: a label's and a number's, and one that dcd bounds in another way.
WAYS = [
    *((mode, "hinge") for mode in [*REPEATABLE, *WITHOUT_ALPHA]),
    *(({"solver": "streamsvm"}, loss) for loss in ("logistic", "epsilon_insensitive")),
    ({"solver": "dcd"}, "logistic"),
]
SECONDS = CLOCKS | {"merging_seconds", "visiting_seconds"}
READ_AGAIN = {"rows_streamed", "evicted_rows", "resident_rows", "resident_bytes"}  # by those who read the data once


class Killed(BaseException):
    """The trainer is no more."""


dataset = in_small_pieces(lambda directory: make_dataset(directory, *random_problem(500)))


@pytest.fixture(autouse=True)
def several_sections_a_pass(monkeypatch):
    monkeypatch.setattr(streamsvm.reader.stream.arrivals, "SECTION_PIECES", 7)


class Doomed(Turns):
    """Ends the trainer at the end of a section, from 1, before or after its checkpoint.

    There it is asked whether the job is to be handed back: before the checkpoint, and after.
    """

    def __init__(self, killed_at, before, *args):
        super().__init__(*args)
        self._left = 2 * killed_at - before

    @property
    def hands_back(self):
        self._left -= 1
        if not self._left:
            raise Killed
        return super().hands_back

    @property
    def is_interrupted(self):
        return False


class Job:
    """Attempts at one job, each killed but the last. A checkpoint is made at the end of every section."""

    def __init__(self, directory, dataset, **settings):
        self.checkpoints = directory / "checkpoints"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self._run = directory / "run"
        self._dataset = dataset
        self._settings = {
            "checkpoints": self.checkpoints, "checkpoint_seconds": 1e-9, "max_passes": PASSES, "tolerance": None,
            **settings,
        }  # fmt: skip
        self._cache = cache_for({"solver": "streamsvm", **settings})
        self.passes = []

    def attempt(self, killed_at=None, before=False):
        """Train, killed at the end of a section (from 1) or not at all, before or after its checkpoint; the Outcome."""
        return self.train(partial(Doomed, killed_at, before) if killed_at else Turns)

    def train(self, link):
        """The Outcome, or None if it was killed."""
        shutil.rmtree(self._run, ignore_errors=True)
        write_run(self._run, self._dataset, self._cache, **self._settings)
        reading = Reader(self._run)
        try:
            passes, results = to_the_end(self._run, reading, link)
        except Killed:
            return None
        finally:
            reading.shutdown()
        return Outcome(passes, results, open_state_of(self._run))


def told(machine):
    return packed(machine.vectors), machine.beta.tobytes(), machine.merges, machine.degradation


def comparable(done, mode):
    reads_again = is_resident(mode) or "holds_all" in mode or SOLVERS[mode["solver"]].rereads
    names = SECONDS | READ_AGAIN if reads_again else SECONDS
    # Each attempt says once in which way it is slower.
    names = names | {"slowdowns"}
    kept = {name: value for name, value in done.items() if name not in names}
    if "sweeps" in kept:
        of_sweeps = [{name: value for name, value in sweep.items() if name not in SECONDS} for sweep in kept["sweeps"]]
        kept["sweeps"] = of_sweeps
    # As text: nan is like nan.
    return json.dumps(kept)


@pytest.mark.parametrize("loss", REGRESSION)
def test_numbers_that_have_weights_end_in_the_same_bytes(tmp_path, loss):
    """What rows weigh is not in the checkpoint, but comes with them anew."""
    X, y = random_problem(500)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 4.0], 500)
    ingest([weighted_text(X, y, weight)], tmp_path / "data")
    settings = {"solver": "dcd", "loss": loss, "max_passes": 12}
    undisturbed = Job(tmp_path / "undisturbed", tmp_path / "data", **settings).attempt()
    job = Job(tmp_path / "disturbed", tmp_path / "data", **settings)
    for killed_at, before in [(1, True), (3, False), (2, True)]:
        assert job.attempt(killed_at, before) is None
    found = job.attempt()
    assert found.alpha.tobytes() == undisturbed.alpha.tobytes() and found.alpha.any()
    assert json.dumps(found.result) == json.dumps(undisturbed.result)


@pytest.mark.parametrize(("mode", "loss"), WAYS, ids=lambda part: part if isinstance(part, str) else name_of(part))
def test_fixed_pace_ends_in_the_same_bytes(tmp_path, dataset, mode, loss):
    settings = {**mode, "loss": loss, "updates_per_row": 3, "max_passes": 8 if is_resident(mode) else PASSES}
    undisturbed = Job(tmp_path / "undisturbed", dataset, **settings).attempt()
    job = Job(tmp_path / "disturbed", dataset, **settings)
    # Nothing is kept yet; after a checkpoint; before the first one of an attempt; in a later section.
    for killed_at, before in [(1, True), (2, False), (1, True), (4, False)]:
        assert job.attempt(killed_at, before) is None
    found = job.attempt()
    assert found.alpha.tobytes() == undisturbed.alpha.tobytes()
    assert found.w.tobytes() == undisturbed.w.tobytes()
    if SOLVERS[mode["solver"]].has_kernel:
        assert told(published_machine(found.state.directory)) == told(published_machine(undisturbed.state.directory))
    assert json.dumps(found.result) == json.dumps(undisturbed.result)
    last = [comparable(done, mode) for done in undisturbed.passes[-len(found.passes) :]]
    assert [comparable(done, mode) for done in found.passes] == last


@pytest.mark.parametrize("solver", ["bm", "sbm"])
def test_a_block_of_all_rows_comes_again_as_it_was(tmp_path, dataset, solver):
    """Without a kill the reader brings it once."""
    settings = {"solver": solver, "updates_per_row": 3, "max_passes": 5}
    jobs = [Job(tmp_path / name, dataset, **settings) for name in ("undisturbed", "disturbed")]
    for job in jobs:
        job._cache = job._cache * 3 // 2  # more than all rows need, whereas sbm keeps those of half of it
    undisturbed = jobs[0].attempt()
    assert jobs[1].attempt(1) is None and jobs[1].attempt(2) is None
    found = jobs[1].attempt()
    assert len(found.passes) < 5 and found.w.tobytes() == undisturbed.w.tobytes()
    assert found.alpha.tobytes() == undisturbed.alpha.tobytes()


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in REPEATABLE], ids=name_of)
def test_adaptive_pace_reaches_the_optimum(tmp_path, dataset, mode):
    relative_gap = 1e-5 if is_sound(mode) and is_fast(mode) else 1e-4 if is_resident(mode) else 2e-2
    job = Job(tmp_path, dataset, **mode, pace="adaptive", relative_gap=relative_gap, max_passes=1000, updates_per_row=8)
    assert job.attempt(3) is None
    # What goes on where rows are on disk sweeps at once, and may come to its end before a section does.
    found = next(found for killed_at in (1, 5, None) if (found := job.attempt(killed_at)))
    assert found.result["stop_reason"] == "relative_gap"
    check_certificate(found, exact(dataset))


@pytest.mark.parametrize("solver", ["cpa", "ocas"])
def test_adaptive_pace_brackets_the_optimum(tmp_path, dataset, solver):
    job = Job(tmp_path, dataset, solver=solver, pace="adaptive", relative_gap=1e-2, max_passes=1000)
    for killed_at in (5, 1, 3):
        assert job.attempt(killed_at) is None
    found = job.attempt()
    assert found.result["stop_reason"] == "relative_gap"
    bracketing.check_certificate(found, exact(dataset))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_finished_job_goes_on_with_more_passes(tmp_path, dataset, solver):
    whole = Job(tmp_path / "whole", dataset, solver=solver, max_passes=4).attempt()
    job = Job(tmp_path / "parts", dataset, solver=solver, max_passes=2)
    job.attempt()
    job._settings["max_passes"] = 4
    found = job.attempt()
    assert [done["pass"] for done in found.passes] == [3, 4]
    assert found.w.tobytes() == whole.w.tobytes()
    assert found.alpha.tobytes() == whole.alpha.tobytes()


@pytest.mark.parametrize("solver", sorted({mode["solver"] for mode in MODES if is_resident(mode)}))
def test_a_solver_that_holds_all_rows_hands_back_between_passes(tmp_path, dataset, solver):
    class Asked(Turns):
        """In the third pass."""

        def begin_step(self, step, pass_):
            super().begin_step(step, pass_)
            self.control["hand_back"] = step.pass_ == 3

    job = Job(tmp_path, dataset, solver=solver, checkpoint_seconds=1e4, max_passes=5)
    with pytest.raises(HandedBack):
        job.train(Asked)
    assert newest_checkpoint(job.checkpoints).about["pass"] == 4


@pytest.mark.parametrize("tolerance", [None, 1.0])
def test_a_job_that_dies_when_it_has_ended_trains_no_further(tmp_path, dataset, tolerance):
    undisturbed = Job(tmp_path / "undisturbed", dataset, tolerance=tolerance).attempt()
    job = Job(tmp_path / "job", dataset, tolerance=tolerance)
    job.attempt()  # its checkpoints are there, its model is lost
    found = job.attempt()
    assert found.passes == []
    assert found.w.tobytes() == undisturbed.w.tobytes()
    assert found.result == undisturbed.result
    # Nor does one that comes back under another path, also with what earlier versions noted: the path it had.
    job.checkpoints = (tmp_path / "job").rename(tmp_path / "moved") / job.checkpoints.name
    job._settings["checkpoints"] = job.checkpoints
    job._run = tmp_path / "run"
    last = newest_checkpoint(job.checkpoints)
    ended = {**last.about["ended"], "job": str(tmp_path / "job" / job.checkpoints.name)}
    for before in (last.about["ended"], ended):
        write_checkpoint(last.path, {**last.about, "ended": before}, last.arrays())
        assert job.attempt().passes == []
    # One that was given its checkpoints goes on.
    job.checkpoints = job.checkpoints.rename(tmp_path / "another")
    job._settings["checkpoints"] = job.checkpoints
    assert len(job.attempt().passes) == 1


def check_it_is_not_trained_on(job, change):
    """A checkpoint whose arrays were changed so."""
    job.attempt(killed_at=3)
    sound = newest_checkpoint(job.checkpoints)
    arrays = sound.arrays()
    change(arrays)
    write_checkpoint(sound.path, {**sound.about, "number": 99}, arrays)
    with pytest.raises(CheckpointUnsound):
        job.attempt()
    assert read_checkpoint(sound.path).about["number"] == 99


def with_other_weights(arrays):
    """Than alpha makes."""
    arrays["w"] = arrays["w"] + 1e-6 * np.abs(arrays["w"]).max()


def out_of_its_box(arrays):
    arrays["alpha"][7] = -0.5


@pytest.mark.parametrize("pace", ["fixed", "adaptive"])
@pytest.mark.parametrize("change", [with_other_weights, out_of_its_box])
def test_a_checkpoint_that_does_not_hold_is_not_trained_on(tmp_path, dataset, pace, change):
    check_it_is_not_trained_on(Job(tmp_path, dataset, pace=pace), change)


def test_a_checkpoint_that_cannot_be_written_costs_nothing_else(tmp_path, dataset, monkeypatch):
    job = Job(tmp_path / "job", dataset)
    real, full = streamsvm.trainer.checkpoints.write_checkpoint, []

    def write(path, about, arrays):
        full.append(path)
        if len(full) % 2:
            raise OSError(errno.ENOSPC, "no room")
        real(path, about, arrays)

    monkeypatch.setattr(streamsvm.trainer.checkpoints, "write_checkpoint", write)
    found = job.attempt()
    assert found.state.control["checkpoint_failures"] == (len(full) + 1) // 2 > 1
    assert newest_checkpoint(job.checkpoints).about["number"] == len(full) // 2
    undisturbed = Job(tmp_path / "undisturbed", dataset).attempt()
    assert found.w.tobytes() == undisturbed.w.tobytes()


class DoomedBetweenSweeps(Turns):
    """Ends the trainer after so many sweeps. Its clock ticks when it is looked at."""

    def __init__(self, sweeps, *args):
        super().__init__(*args, clock=itertools.count().__next__)
        self._left = sweeps

    def show(self, progress):
        super().show(progress)
        self._left -= 1
        if not self._left:
            raise Killed


class Watched(Turns):
    """Notes at each sweep how long the one before said that sweeps take. Its clock ticks when it is looked at."""

    def __init__(self, told, *args):
        super().__init__(*args, clock=itertools.count().__next__)
        self._told = told

    def show(self, progress):
        self._told.append(self.control["seconds_left"])
        super().show(progress)


def test_sweeps_say_how_long_they_still_take(tmp_path, dataset):
    told = []
    job = Job(tmp_path, dataset, holds_all=True, C=10.0, pace="adaptive", relative_gap=1e-7, max_passes=1000)
    found = job.train(partial(Watched, told))
    assert told[0] == 0.0 and all(0.0 < left < inf for left in told[2 : len(found.passes[0]["sweeps"])])
    assert found.state.control["seconds_left"] == 0.0


@pytest.mark.parametrize("way", [{"on_disk": True}, {"holds_all": True}, {"on_disk": True, "threads": 2}], ids=str)
def test_a_job_that_dies_between_sweeps_begins_the_pass_again_with_what_it_had(tmp_path, dataset, way):
    job = Job(tmp_path, dataset, **way, C=10.0, pace="adaptive", relative_gap=1e-5, max_passes=1000)
    assert job.train(partial(DoomedBetweenSweeps, 5)) is None
    kept = newest_checkpoint(job.checkpoints)
    assert (kept.about["pass"], kept.about["pieces"], kept.about["control"]["sweeps"]) == (1, 0, 4)
    problem = exact(dataset, C=10.0)
    v = problem.X.T @ (kept["alpha"][:, 0] * problem.y)
    assert np.linalg.norm(kept["w"][:, 0] - v) <= 1e-9 * np.linalg.norm(v)
    assert kept["alpha"].min() >= 0 and 0 < kept["alpha"].max() <= 10.0
    found = job.attempt()
    assert found.passes[0]["pass"] == 1
    assert found.result["stop_reason"] == "relative_gap"
    check_certificate(found, problem)


def test_a_job_that_has_to_go_on_from_the_very_place_keeps_nothing_between_sweeps(tmp_path, dataset):
    job = Job(tmp_path, dataset, holds_all=True, updates_per_row=9, max_passes=4)
    undisturbed = Job(tmp_path / "undisturbed", dataset, holds_all=True, updates_per_row=9, max_passes=4).attempt()
    for sweeps in (5, 14):
        assert job.train(partial(DoomedBetweenSweeps, sweeps)) is None
    assert newest_checkpoint(job.checkpoints).about["pass"] == 2
    found = job.attempt()
    assert found.alpha.tobytes() == undisturbed.alpha.tobytes()
    assert found.w.tobytes() == undisturbed.w.tobytes()


@pytest.mark.parametrize("solver", ["bsca", "bsgd"])
def test_a_machine_that_had_ended_is_there_again(tmp_path, dataset, solver):
    """Its processes died before the model was made: nothing is left to train."""
    job = Job(tmp_path, dataset, solver=solver, budget=20)
    first = job.attempt()
    before = told(published_machine(first.state.directory))
    again = job.attempt()
    assert (again.passes, told(published_machine(again.state.directory))) == ([], before)
    assert json.dumps(again.result) == json.dumps(first.result)
