"""Training and predicting without a server: the same ingest, reader and trainer, in a temporary directory."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.locations import is_url
from streamsvm.service.cluster.prepare import cluster_run, prepare_cluster_run
from streamsvm.service.datasets.forgetting import forget
from streamsvm.service.datasets.ingesting import Ingesting
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.lanes.continuing import keep_history
from streamsvm.service.jobs.lanes.cross_validation import CrossValidation, cross_validation
from streamsvm.service.jobs.lanes.lane_files import (
    abouts_of,
    drop_older_checkpoints,
    keep_outcomes,
    lane_directory,
    outcome_of,
)
from streamsvm.service.jobs.plan.following import FollowPlan, can_follow, plan_following
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.jobs.plan.warm_start import begin_lane
from streamsvm.service.jobs.progress.progress import HISTORY, progress, read_history
from streamsvm.service.jobs.results import models_of
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.models.registry import lane_outcome
from streamsvm.service.processes.run import Run, prepare_run
from streamsvm.service.processes.run_directories import has_room, temporary_directory
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import load_kernels
from streamsvm.storage.run.state import State

if TYPE_CHECKING:
    from streamsvm.service.processes.inline_run import RunInTurns

_FIRST_PAUSE_SECONDS = 0.01

Report = Callable[[dict[str, Any], list[dict[str, Any]]], None]
Check = Callable[[JobPlan, Path], None]


class Trained(NamedTuple):
    """Models with their C, ascending, and what the folds of a cross-validation say, if there were any."""

    models: list[tuple[float, Model]]
    folds: dict[str, Any]


def train_file(
    file: Path | str, spec: JobSpec, settings: Settings, options: InputOptions, report: Report, check: Check
) -> Trained:
    """Train on a file, if possible while it is being read in; or on those of a URL or a pattern, which is a text.

    `report` receives progress and history about ten times a second; `check` the plan as soon as there is one, and the
    dataset's directory, and raises ServiceError if its models would be of no use. Raises InputError for a bad file,
    ServiceError for a job that cannot run or that died.
    """
    with (
        temporary_directory(None, "streamsvm-") as work,
        _open(file) as source,
        _forgetting(work / "dataset", settings),
        Ingesting(source, work / "dataset", settings, options, True, machines=_readers(file, spec)) as ingesting,
    ):
        training = Training(work, work / "dataset", settings, report, check, ingesting)
        if can_follow(spec) and (trained := _follow(training, spec, settings.max_features)):
            return trained
        # What cannot be followed, or turned out so. If the dataset is lost, `wait` says why.
        load_kernels()  # the model will need one, and this process has nothing else to do now
        ingesting.wait()
        return training.all_lanes(plan_job(spec, read_manifest(work / "dataset")))


def _follow(training: "Training", spec: JobSpec, max_features: int) -> Trained | None:
    """Train while the dataset is read in; None: that is not to be."""
    plan: FollowPlan | None = plan_following(spec, max_features)
    while plan:
        try:
            return training.all_lanes(plan)
        except ServiceError as error:
            plan = plan.after(error)
    return None


class Training:
    """Lane after lane of a job on the dataset `dataset`, with what they leave in the directory `work`, which is empty.

    ingesting  what reads the dataset in, if it is not complete
    in_turns   in this process, see `service.processes.inline_run`
    keeps      where a job of one lane leaves its checkpoint, a directory that is empty; None: nowhere
    begins     prepares the state of such a job
    """

    def __init__(
        self,
        work: Path,
        dataset: Path,
        settings: Settings,
        report: Report,
        check: Check = lambda _, __: None,
        ingesting: Ingesting | None = None,
        in_turns: bool = False,
        keeps: Path | None = None,
        begins: Callable[[State], None] | None = None,
    ) -> None:
        self._work = work
        self._dataset = dataset
        self._settings = settings
        self._report = report
        self._check = check
        self._ingesting = ingesting
        self._in_turns = in_turns
        self._keeps = keeps
        self._begins = begins
        self._run: Run | RunInTurns | None = None
        self.is_stopping = False

    def stop(self) -> None:
        """End after the running pass; lanes to come end after their first. The models are of what there is then."""
        self.is_stopping = True
        if self._run is not None:
            self._run.request_stop()

    def all_lanes(self, plan: JobPlan | FollowPlan) -> Trained:
        keep_history(self._work, 0)
        if isinstance(plan, JobPlan):
            self._check(plan, self._dataset)
        known, outcome = self._lanes(plan)
        if outcome is not None:
            return self._trained(known, 1, lambda _: outcome, None)
        while len(done := abouts_of(self._work)) < len(known.lanes):
            known = known.next_lanes(done)
            self._lanes(known)
        folds = cross_validation(known, self._work, len(done))
        return self._trained(known, len(done), partial(outcome_of, self._work), folds)

    def _trained(
        self, plan: JobPlan, n_done: int, outcome: Callable[[int], Model], folds: CrossValidation | None
    ) -> Trained:
        models = models_of(plan, n_done, outcome, input_about(plan.manifest), folds, self._work)
        return Trained([(C, with_heaviest(model, self._dataset)) for C, model in models], folds.view if folds else {})

    def _lanes(self, plan: JobPlan | FollowPlan) -> tuple[JobPlan, Model | None]:
        """Run some; what is known then, and what the one came to, if there is no other."""
        # The cache belongs into memory, the blocks do not.
        cache_dir = self._settings.cache_dir
        in_memory = has_room(cache_dir, plan.run_bytes)
        with temporary_directory(cache_dir if in_memory else self._work, "streamsvm-run-") as scratch:
            self._prepare(plan, scratch / "run", not (in_memory or self._in_turns))
            run = self._run = self._new_run(scratch / "run", plan.spec.machines)
            try:
                if self.is_stopping:
                    run.request_stop()
                run.start()
                known = self._watch(run, plan)
            finally:
                self._run = None
                run.kill()
            if isinstance(plan, FollowPlan) and len(known.lanes) > 1:
                keep_history(self._work, 0)
                return known, None  # it took the first two labels for all
            make = partial(lane_outcome, known, self._dataset, run.directory, run.results())
            if len(known.lanes) == 1:
                return known, make(0)
            keep_outcomes(self._work, known, run.directory, make)
            return known, None

    def _new_run(self, directory: Path, machines: int | str | None) -> "Run | RunInTurns":
        if self._in_turns:
            # Slow to import, and not needed by others.
            from streamsvm.service.processes.inline_run import RunInTurns  # noqa: PLC0415

            return RunInTurns(directory, self._work)
        if machines is not None:
            return cluster_run(directory, self._work, self._settings)
        return Run(directory, self._work, self._settings.stall_seconds)

    def _prepare(self, plan: JobPlan | FollowPlan, directory: Path, is_on_disk: bool) -> None:
        """Checkpoints are for the next lane alone, if there is one."""
        checkpoints, begins = self._keeps, self._begins
        if isinstance(plan, JobPlan) and len(plan.lanes) > 1:
            drop_older_checkpoints(self._work, plan)
            checkpoints = lane_directory(self._work, plan)
            checkpoints.mkdir(parents=True)
            begins = partial(begin_lane, plan=plan, job_dir=self._work) if plan.number else None
        if isinstance(plan, JobPlan) and plan.spec.machines is not None:
            name = f"local-{os.getpid()}-{plan.manifest.uid}"
            prepare_cluster_run(directory, plan, self._dataset, name, self._settings, checkpoints, begins)
        else:
            prepare_run(directory, plan, self._dataset, checkpoints, begins, is_on_disk=is_on_disk)

    def _watch(self, run: "Run | RunInTurns", plan: JobPlan | FollowPlan) -> JobPlan:
        """Until the run has ended, or is known to be of more than one lane without having been planned so."""
        follows = isinstance(plan, FollowPlan)
        finished = False
        pause = min(_FIRST_PAUSE_SECONDS, run.pause_seconds)
        while not (finished and isinstance(plan, JobPlan)):
            if pause:
                time.sleep(pause)
            pause = min(2 * pause, run.pause_seconds)
            if isinstance(plan, FollowPlan) and self._ingesting is not None and self._ingesting.is_done():
                plan = plan_job(plan.spec, read_manifest(self._dataset))
                self._check(plan, self._dataset)
                load_kernels()  # the model will need one; ingest has left a core free
            if follows and isinstance(plan, JobPlan) and len(plan.lanes) > 1:
                break
            finished = run.poll()
            history = read_history(self._work / HISTORY)
            self._report(progress(run.control, run.lane, plan.spec, plan.blocks, history), history)
        return plan


def _readers(file: Path | str, spec: JobSpec) -> int | str | None:
    """The machines of a job read URLs themselves; a pattern is of files that may be here alone."""
    return spec.machines if isinstance(file, str) and is_url(file) else None


@contextmanager
def _forgetting(dataset: Path, settings: Settings) -> Iterator[None]:
    """What machines have of it is gone in the end."""
    try:
        yield
    finally:
        forget(dataset, settings, waits=True)


@contextmanager
def _open(file: Path | str) -> Iterator[Any]:
    """The file, or standard input for `-`; a URL or a pattern as they are."""
    if isinstance(file, str):
        yield [file]
    elif str(file) == "-":
        yield sys.stdin.buffer
    else:
        with file.open("rb") as source:
            yield source
