"""Runs the lanes of a job, some at a time, until all are done, and makes their models."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from streamsvm.service.jobs.fields.features import asked_maps
from streamsvm.service.jobs.lanes.continuing import searched
from streamsvm.service.jobs.lanes.lane_files import abouts_of, keep_outcomes, outcome_of
from streamsvm.service.jobs.lanes.outcome import CrossValidation, Outcome, cross_validation, with_training_scores
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import has_leading_bias, read_lane
from streamsvm.service.jobs.progress.progress import HISTORY, last_lines, made, read_json
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.features.weighing import with_bias_last
from streamsvm.storage.models.model_file import Model, tuples
from streamsvm.storage.models.support_vectors import published_machine
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE, Control, open_control, open_state


class Run(ABC):
    """Trains the lanes of a plan: in processes of this machine, in this process, or on the machines of a cluster.

    directory      directory of the run's files, which are complete after `results`
    job_dir        directory for history.ndjson, a line a pass
    control        control page of the run: counters and figures that its processes share
    lane           description of the lanes that it trains, as run.json has it
    pause_seconds  seconds that a caller with nothing else to do waits between two polls
    """

    pause_seconds: float

    def __init__(self, directory: Path, job_dir: Path) -> None:
        self.directory, self._history = directory, job_dir / HISTORY
        self.control: Control = open_control(directory)
        self.lane = read_lane(directory)

    @abstractmethod
    def start(self) -> None:
        """Begin to train. Raises OSError if the machine has no room for its processes."""

    @abstractmethod
    def poll(self) -> bool:
        """Return whether training has ended. Raises ServiceError if training failed."""

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or once training has ended, if the run can tell."""
        time.sleep(seconds)

    @abstractmethod
    def close(self) -> None:
        """End the run's processes, whether or not training is done."""

    def request_stop(self) -> None:
        """Ask the run to end after the current pass."""
        self.control["stop"] = 1

    def hand_back(self) -> None:  # noqa: B027 - a run that nobody can go on with has nothing to do
        """Write a checkpoint of the current state and end, if a few seconds are enough. Raises what `poll` raises."""

    def results(self) -> list[dict[str, Any]]:
        """Return the trainer's report on each lane, once training has ended."""
        (last,) = last_lines(self._history, 1)
        return read_json(last.decode())["result"]


class Attempt(Protocol):
    """A run that has been started, and what reports its progress."""

    @property
    def run(self) -> Run:
        """The run that has been started."""

    def poll(self, plan: JobPlan) -> bool:
        """Poll the run, and report its progress. Returns whether the run has ended."""

    def close(self) -> None:
        """End the run and remove its directory."""


class LaneRunner:
    """Runs the lanes of a job: `start` it, `step` until that returns True, take the `outcome`; `close` it in any case.

    job_dir        keeps the models of finished lanes, and the history
    dataset        directory of the dataset
    begin          function that prepares and starts a run of a plan's next lanes
    replan         function that plans the job anew while its dataset is still being read in
    ends_on_stop   after a stop, lanes that have not begun are left out once one model is complete (lanes that this
                   model needs still run, for seconds), or at once if there are folds; False: every lane runs
    """

    def __init__(
        self,
        job_dir: Path,
        dataset: Path,
        begin: Callable[[JobPlan], Attempt],
        replan: Callable[[], JobPlan],
        ends_on_stop: bool = False,
    ) -> None:
        self._job_dir, self._dataset = job_dir, dataset
        self._begin, self._replan = begin, replan
        self._ends_on_stop = ends_on_stop
        self._plan: JobPlan | None = None
        self._attempt: Attempt | None = None
        self.outcome: Outcome  # of the job, after `step` has returned True
        self._done: Sequence[Mapping[str, Any]] = ()
        self._found: CrossValidation | None = None  # of the lanes that are done
        self.is_stopped = False

    @property
    def run(self) -> Run | None:
        """The run that was started last; None before `start` and after `close`."""
        return None if self._attempt is None else self._attempt.run

    def start(self, plan: JobPlan, done: Sequence[Mapping[str, Any]] = ()) -> None:
        """Start the lanes that follow the finished ones, whose records are `done`. Raises what `begin` raises."""
        self.close()
        self._done = done
        self._plan = searched(plan, self._job_dir, done, self._found).next_lanes(done)
        self._found = cross_validation(self._plan, self._job_dir, len(done), self._found)
        self._attempt = self._begin(self._plan)
        if self._found is not None:
            control, C = self._attempt.run.control, self._found.selected_C
            control["best_C"], control["best_score"] = C, self._found.score(C)["value"]

    def request_stop(self) -> None:
        """Ask the run to end after its current pass."""
        if self._attempt is not None:
            self._attempt.run.request_stop()

    def hand_back(self) -> None:
        """Have the run write a checkpoint of its current state, and end."""
        if self._attempt is not None:
            self._attempt.run.hand_back()

    def step(self) -> bool:
        """Poll the run, and start the next run when it has ended. Returns whether the job's lanes are done."""
        assert self._attempt is not None and self._plan is not None, "start() comes first"
        if self._plan.follows:
            self._plan = self._replan()
            if len(self._plan.lanes) > 1:
                # The run has taken the first two labels for all labels of the dataset.
                self.start(self._plan)
                return False
        has_ended = self._attempt.poll(self._plan)
        return has_ended and not self._plan.follows and self._finish(self._attempt.run, self._plan)

    def close(self) -> None:
        """End the run, if there is one."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()

    def _finish(self, run: Run, plan: JobPlan) -> bool:
        """Save the models of a run's lanes, and start the next lanes; return whether no more lanes are to run."""
        reported = run.results()
        self.is_stopped |= "stopped" in {each["stop_reason"] for each in reported}
        make = partial(lane_outcome, plan, self._dataset, run.directory, reported)
        done: Sequence[Mapping[str, Any]]
        model_of: Callable[[int], Model]
        if len(plan.lanes) == 1:
            model = make(0)
            done, model_of = [model.about], lambda _: model
        else:
            about = partial(lane_about, plan, run.directory, reported)
            keep_outcomes(self._job_dir, plan, run.directory, make, about)
            if plan.is_searching:  # it has many lanes, which need not be read again
                done = [*self._done[: plan.number], *map(about, range(len(plan.running)))]
            else:
                done = abouts_of(self._job_dir)
            model_of = partial(outcome_of, self._job_dir)
            has_model = any(plan.lanes_of(C, len(done)) for C in plan.spec.Cs)
            is_enough = self.is_stopped and self._ends_on_stop and (has_model or plan.spec.n_folds)
            self._found = cross_validation(plan, self._job_dir, len(done), self._found)
            plan = searched(plan, self._job_dir, done, self._found)
            if len(done) < len(plan.lanes) and not is_enough:
                self.start(plan, done)
                return False
        done = with_training_scores(plan, self._job_dir, done)
        is_whole = plan.spec.searches_C or len(done) == len(plan.lanes)
        folds = cross_validation(plan, self._job_dir, len(done), self._found) if is_whole else None
        self.outcome = Outcome(plan, done, model_of, folds)
        return True


def lane_outcome(plan: JobPlan, dataset: Path, run: Path, results: Sequence[dict[str, Any]], place: int = 0) -> Model:
    """Return the model of the lane at index `place` of a finished run, with the lane's result in the model's `about`.

    The model's labels are +1, for the lane's class, and -1; if one problem has all classes, they are the data's labels.
    """
    state = open_state(run, plan.manifest.n_rows, plan.width, plan.tasks.width)
    about = lane_about(plan, run, results, place)
    if plan.solver.has_kernel:
        return _machine(plan, dataset, run, about)
    has_bias, w = plan.spec.bias is not None, with_bias_last(state.w) if has_leading_bias(run) else state.w
    w = w.reshape(plan.width, -1)
    columns = w[:, : len(plan.labels)].T if _has_classes(plan) else w[:, place]
    w_bias = columns[..., -1].tolist() if has_bias else 0.0
    model = Model(
        w=_in_input_order(plan, dataset, columns),
        labels=plan.model_labels if _has_classes(plan) else (1.0, -1.0) if plan.labels else (),
        index_base=plan.manifest.index_base,
        bias=plan.spec.bias,
        w_bias=tuples(w_bias),
        about=about,
        maps=asked_maps(plan.spec, Dataset(dataset)),
    )
    is_plain = plan.manifest.own_width and not plan.spec.features
    return _without_others(model, plan.manifest.width - plan.manifest.listed) if is_plain else model


def _without_others(model: Model, begin: int) -> Model:
    """Leave out features numbered below `begin` whose weight is 0 in every class: the data may not have them."""
    assert model.maps is not None and model.maps.listed is not None
    features = model.maps.listed
    kept = (features >= begin) | np.any(np.atleast_2d(model.w) != 0.0, axis=0)
    if kept.all():
        return model
    maps = listed_maps(model.n_features, model.index_base, features[kept])
    return replace(model, w=np.ascontiguousarray(model.w[..., kept]), maps=maps)


def lane_about(plan: JobPlan, run: Path, results: Sequence[dict[str, Any]], place: int = 0) -> dict[str, Any]:
    """Return the record of the lane at index `place` of a finished run: its result, and what its run took."""
    control, result = open_control(run), results[place]
    if plan.solver.has_kernel:
        machine = published_machine(run)
        told = {
            **json.loads((run / RUN_FILE).read_bytes())["distances"],
            "support_vectors": len(machine.vectors),
            "merges": machine.merges,
            "weight_degradation": machine.degradation,
        }
        result = {**result, "machine": told}
    return {
        "result": result,
        "elapsed_seconds": control["elapsed_seconds"],
        "job_passes": plan.passes_before + int(control["finished_passes"]),
        "run": plan.number,
        "made": made(control),
    }


def _machine(plan: JobPlan, dataset: Path, run: Path, about: dict[str, Any]) -> Model:
    machine, own = published_machine(run), Dataset(dataset)
    vectors = machine.vectors
    return Model(
        w=machine.beta,
        labels=(1.0, -1.0),
        index_base=plan.manifest.index_base,
        about=about,
        vectors=vectors.renumbered(own.numbers[vectors.indices], own.manifest.input_width),
    )


def _has_classes(plan: JobPlan) -> bool:
    """Return whether a lane has a decision value for each class. With two classes, one value serves both."""
    return plan.spec.is_joint and len(plan.labels) > 2


def _in_input_order(plan: JobPlan, dataset: Path, w: Array) -> Array:
    """Return w (..., n_features) in the order of the input's features or of those that maps make, without the bias."""
    own, base = Dataset(dataset), plan.manifest.index_base
    maps = plan.maps
    end = maps.width - (plan.spec.bias is not None)
    # A model that carries maps has a weight for each feature that they make.
    begin = 0 if plan.spec.features or plan.manifest.own_width else base
    rows = [np.ascontiguousarray(row[:end]) for row in np.atleast_2d(w)]
    if maps.keeps_numbers:
        # Constant features that maps append come after all others, also in the input's order.
        width = plan.manifest.width
        rows = [np.concatenate([own.in_input_order(row[:width]), row[width:]]) for row in rows]
    return np.stack([row[begin:] for row in rows]).reshape(*w.shape[:-1], -1)
