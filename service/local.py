"""Trains without a server, with the same ingest, reader and trainer processes, in a temporary directory."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import is_url
from streamsvm.service.datasets.forgetting import forget
from streamsvm.service.datasets.ingesting import Ingesting
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.lanes.continuing import keep_history
from streamsvm.service.jobs.lanes.lane_files import checkpoint_place
from streamsvm.service.jobs.lanes.runner import LaneRunner, Run
from streamsvm.service.jobs.lanes.warm_start import next_beginning
from streamsvm.service.jobs.plan.plan import JobPlan, can_follow, followed_again, plan_following, plan_job
from streamsvm.service.jobs.progress.progress import HISTORY, History, progress
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.models.predicting.applied import with_mean
from streamsvm.service.processes.launch import launch
from streamsvm.service.processes.run_directories import has_room, temporary_directory
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.features.rows import read_statistics
from streamsvm.storage.machine.compiling import NOTICED_SECONDS, say_compiling
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import load_kernels
from streamsvm.storage.run.state import State

_FIRST_PAUSE_SECONDS = 0.01

Report = Callable[[dict[str, Any], list[dict[str, Any]]], None]
Check = Callable[[JobPlan, Path], None]


class Trained(NamedTuple):
    """The models of a job, each with its C, by ascending C; `folds` has the figures of cross-validation, or is {}."""

    models: list[tuple[float, Model]]
    folds: dict[str, Any]


def train_file(
    file: Path | str,
    spec: JobSpec,
    settings: Settings,
    options: InputOptions,
    report: Report,
    check: Check,
    stopping: Callable[[], None] = lambda: None,
) -> Trained:
    """Train on a file, or on the files of a URL or pattern (a str), if possible while ingest still reads them.

    `report` receives progress and history about ten times a second. `check` receives the plan and the dataset's
    directory before training, and raises ServiceError if the models would be of no use. A first interrupt in training
    ends it after the running pass, with the models so far, and calls `stopping`; a second one raises KeyboardInterrupt.

    Raises InputError for a bad file, ServiceError for a job that cannot run or that died.
    """
    # Machines of a cluster read what is at a URL; this machine may alone have a file.
    machines = spec.machines if isinstance(file, str) and is_url(file) else None
    with (
        temporary_directory(None, "streamsvm-") as work,
        _open(file) as source,
        _forgetting(work / "dataset", settings),
        Ingesting(source, work / "dataset", settings, options, machines=machines) as ingesting,
    ):
        training = LocalTraining(work, work / "dataset", settings, report, check, ingesting, stopping=stopping)
        if can_follow(spec):
            with interrupting(training.stop):
                if trained := _follow(training, spec, settings.max_features):
                    return trained
        # The job needs the whole dataset. If that is lost, `wait` says why.
        load_kernels()  # the model will need one, and this process has nothing else to do now
        ingesting.wait()
        with interrupting(training.stop):
            return training.all_lanes(plan_job(spec, read_manifest(work / "dataset")))


def _follow(training: "LocalTraining", spec: JobSpec, max_features: int) -> Trained | None:
    """Train while ingest still reads the dataset; return None if the job turns out to need the whole dataset first."""
    plan: JobPlan | None = plan_following(spec, max_features)
    while plan:
        try:
            return training.all_lanes(plan)
        except ServiceError as error:
            plan = followed_again(plan, error)
    return None


class LocalTraining:
    """Trains all lanes of a job on the dataset `dataset`, and keeps their models in `work`, an empty directory.

    ingesting    the ingest that still reads the dataset; None: the dataset is complete
    is_inline    train in this process, see `service.processes.launch`
    checkpoints  empty directory for the checkpoint of a job whose lanes all train in one run; None: keep no checkpoint
    begins       is called with the new State of such a job before training
    stopping     is called once, after `stop` has been passed on to the run
    """

    def __init__(
        self,
        work: Path,
        dataset: Path,
        settings: Settings,
        report: Report,
        check: Check = lambda _, __: None,
        ingesting: Ingesting | None = None,
        is_inline: bool = False,
        checkpoints: Path | None = None,
        begins: Callable[[State], None] | None = None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._dataset = dataset
        self._settings = settings
        self._report = report
        self._check = check
        self._ingesting = ingesting
        self._is_inline = is_inline
        self._checkpoints = checkpoints
        self._begins = begins
        self._stopping = stopping
        self._history = History(work / HISTORY)
        self._lanes: LaneRunner | None = None
        self.is_stopping = self._has_told = False

    def stop(self) -> None:
        """End the run after its current pass; lanes that begin later end after one pass. Every lane gets a model."""
        self.is_stopping = True
        if self._lanes is not None:
            self._lanes.request_stop()

    def all_lanes(self, plan: JobPlan) -> Trained:
        """Train all lanes of the plan, and return their models."""
        if not plan.follows:
            self._check(plan, self._dataset)
        with closing(LaneRunner(self._work, self._dataset, self._begin, partial(self._replan, plan))) as lanes:
            self._lanes = lanes
            lanes.start(plan)
            self._wait(lanes)
            outcome = lanes.outcome
        manifest, dataset = outcome.plan.manifest, self._dataset
        statistics = read_statistics(dataset)
        models = outcome.models(input_about(manifest), self._work)
        named = [(C, with_heaviest(with_mean(model, statistics, manifest), dataset)) for C, model in models]
        return Trained(named, outcome.folds_view)

    def _wait(self, lanes: LaneRunner) -> None:
        """Step `lanes` until all lanes are done. Pauses between steps begin short, as a run may be short, and grow."""
        run, pause, has_ended = None, 0.0, False
        while not has_ended:
            pause = 2 * pause if lanes.run is run else _FIRST_PAUSE_SECONDS
            run = lanes.run
            if run and (pause := min(pause, run.pause_seconds)):
                run.wait(pause)
            if self.is_stopping:
                lanes.request_stop()
                if not self._has_told:  # `stop`, which runs in a signal handler, must not call it: it may print
                    self._has_told = True
                    self._stopping()
            has_ended = lanes.step()

    def _replan(self, plan: JobPlan) -> JobPlan:
        """Return a plan for the whole dataset once ingest has finished; until then return `plan`."""
        if self._ingesting is None or not self._ingesting.is_done():
            return plan
        whole = plan_job(plan.spec, read_manifest(self._dataset))
        self._check(whole, self._dataset)
        load_kernels()  # the model will need one; ingest has left a core free
        return whole

    def _begin(self, plan: JobPlan) -> "_LocalAttempt":
        if plan.number == 0:
            keep_history(self._work, 0)
            self._history = History(self._work / HISTORY)
        # If there is room, the cache is in memory (`cache_dir`); the blocks stay on disk.
        cache_dir = self._settings.cache_dir
        in_memory = has_room(cache_dir, plan.run_bytes)
        files = ExitStack()
        try:
            scratch = files.enter_context(temporary_directory(cache_dir if in_memory else self._work, "streamsvm-run-"))
            checkpoints, begins = self._checkpoints, self._begins
            if len(plan.lanes) > len(plan.running):
                # The checkpoint only serves the start of the next lanes: nobody resumes this job.
                checkpoints, begins = checkpoint_place(self._work, plan), next_beginning(plan, self._work)
            paths = scratch / "run", self._work, self._dataset, checkpoints
            name = f"local-{scratch.name}"
            run, _ = launch(plan, self._settings, name, *paths, begins, not in_memory, self._is_inline)
            files.callback(run.close)
            if self.is_stopping:
                run.request_stop()
            run.start()
        except BaseException:
            files.close()
            raise
        return _LocalAttempt(run, files, self._history, self._report)


class _LocalAttempt:
    """An attempt that reports the progress of its run; a `service.jobs.lanes.runner.Attempt` of the command line."""

    def __init__(self, run: Run, files: ExitStack, history: History, report: Report) -> None:
        self.run = run
        self._files, self._history, self._report = files, history, report

    def poll(self, plan: JobPlan) -> bool:
        """Poll the run and report its progress; return whether the run has ended."""
        has_ended = self.run.poll()
        history = self._history.read()
        shown = progress(self.run.control, self.run.lane, plan.spec, plan.blocks, history)
        if shown["compile_seconds"] > NOTICED_SECONDS:
            say_compiling()
        self._report(shown, history)
        return has_ended

    def close(self) -> None:
        """End the run and remove its files."""
        self._files.close()


@contextmanager
def _forgetting(dataset: Path, settings: Settings) -> Iterator[None]:
    """Have other machines drop their shards of the dataset when the `with` statement ends."""
    try:
        yield
    finally:
        forget(dataset, settings, waits=True)


@contextmanager
def _open(file: Path | str) -> Iterator[Any]:
    """Yield the opened file, or standard input for `-`; for a str, which is a URL or pattern, yield a list with it."""
    if isinstance(file, str):
        yield [file]
    elif str(file) == "-":
        yield sys.stdin.buffer
    else:
        with file.open("rb") as source:
            yield source


@contextmanager
def interrupting(stop: Callable[[], None]) -> Iterator[None]:
    """Let a first interrupt call `stop`, and leave a second interrupt to the handler that was set before.

    Does nothing outside of the main thread, or where interrupts are ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
