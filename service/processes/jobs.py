"""The jobs of the worker: which is next, how its lanes are run, and how it ends."""

import logging
import shutil
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.lanes.continuing import drop_unsound, inherit, keep_history, lost_seconds
from streamsvm.service.jobs.lanes.lane_files import (
    abouts_of,
    begun_last,
    checkpoint_place,
    drop_all,
    has_checkpoint,
    newest_lane,
    settle_lanes,
    with_lanes,
)
from streamsvm.service.jobs.lanes.outcome import Outcome
from streamsvm.service.jobs.lanes.runner import LaneRunner, Run
from streamsvm.service.jobs.lanes.warm_start import are_dealt_otherwise, beginning, note_rows
from streamsvm.service.jobs.plan.plan import JobPlan, plan_recorded
from streamsvm.service.jobs.progress.progress import HISTORY, last_passes, progress
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.models.registry import publish_models, settle_models, unpublish_models
from streamsvm.service.processes.launch import LASTING, forget_run, launch
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.processes.run import log_tail
from streamsvm.service.processes.run_directories import RunDirectories
from streamsvm.service.processes.work import Needs, Work
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import sweep
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import OF_EARLIER_VERSIONS
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.files.durable import make_directory, sync
from streamsvm.storage.machine.resources import memory_limit
from streamsvm.storage.run.checkpoint import UNSURE_SLOT, Checkpoint, newest_checkpoint
from streamsvm.storage.run.slowdowns import told

_log = logging.getLogger("streamsvm.worker")
_CHECKPOINTS_OF_A_LANE = 1 << 32  # more than there ever are


def needs_of(record: dict[str, Any], plan: JobPlan) -> Needs:
    """The needs of a job on record."""
    is_alone = any(step.get("alone") for step in record["transitions"])
    if plan.spec.machines is not None:
        return Needs(has_cluster=True, is_alone=is_alone)
    return Needs(plan.needed_bytes, is_alone=is_alone)


@dataclass
class RecordedAttempt:
    """A started run of a job that has a record. A `service.jobs.lanes.runner.Attempt`.

    checkpoint  the checkpoint from which the run goes on; None: it began without one
    remove      removes the run's directory
    slowdowns   bits of the slowdowns that are on record, see storage.run.slowdowns
    """

    record: dict[str, Any]
    run: Run
    checkpoint: Checkpoint | None
    store: Store
    remove: Callable[[], None]
    slowdowns: int = 0

    def poll(self, _plan: JobPlan) -> bool:
        """Poll the run. Raises Crash if it died of an error that another attempt may not meet; else ServiceError."""
        try:
            has_ended = self.run.poll()
        except ServiceError as error:
            JobLog(_log, self.record["id"]).warning(error.message)
            if error.code == CheckpointUnsound.code and self.checkpoint:
                # The checkpoint that the run has made since is not to be trusted, either.
                for path in (self.checkpoint.path, self.checkpoint.path.with_name(UNSURE_SLOT)):
                    path.unlink(missing_ok=True)
            if error.code in LASTING:
                raise
            raise Crash(error.code, error.message, error.hint) from error
        self._tell_slowdowns()
        return has_ended

    def close(self) -> None:
        """End the run and remove its directory."""
        try:
            self.run.close()
        except Exception:
            # A trainer whose run directory is gone writes no checkpoint; the processes die with this one.
            JobLog(_log, self.record["id"]).exception("its processes may still run")
        self.remove()

    def _tell_slowdowns(self) -> None:
        """Record and log the slowdowns that the run has reported since the last call."""
        found, job_id = int(self.run.control["slowdowns"]), self.record["id"]
        new = told(found & ~self.slowdowns)
        if not new:
            return
        with suppress(sqlite3.Error):  # the next poll tries again
            known = self.store.job(job_id)["transitions"][-1].get("slowdowns", [])
            self.store.explain_job(job_id, slowdowns=[*known, *(each for each in new if each not in known)])
            self.slowdowns = found
            for each in new:
                JobLog(_log, job_id).warning("%s: %s", each["code"], each["message"])


class _RunningJob(NamedTuple):
    """A running job: its record, what it needs, and the runner of its lanes."""

    record: dict[str, Any]
    needs: Needs
    lanes: LaneRunner

    def end(self) -> float | None:
        """End its run; returns the seconds that it has trained."""
        run = self.lanes.run
        if run is None:
            return None
        self.lanes.close()
        return run.control["elapsed_seconds"]

    def hand_back(self) -> None:
        """Leave a checkpoint of where it is."""
        with suppress(Exception):  # died, which is what was wanted
            self.lanes.hand_back()


class JobWork(Work):
    """The jobs of a data directory; as many run at a time as `Settings.jobs_at_once` says and memory has room for."""

    kind, reached, is_vital = "job", "crash_checkpoint", True
    died = Crash("worker_died", "the worker ended while the job ran", "The log of the service says more.")

    def __init__(self, settings: Settings, store: Store) -> None:
        super().__init__(settings, store, settings.jobs, settings.jobs_at_once)
        self._directories = RunDirectories(settings)
        self._needs: dict[str, Needs] = {}  # of jobs that wait
        self._waits_for: dict[str, frozenset[str]] = {}  # job that first had no room -> jobs that ran then

    def shutdown(self) -> None:
        """Hand the running jobs back, with checkpoints of where they are; they make them at once."""
        threads = [Thread(target=active.hand_back) for active in self.active.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        super().shutdown()

    def _next(self, waiting: list[dict[str, Any]], beside: Collection[Needs]) -> str | None:
        """The first for which there is room; always if no job runs.

        Other jobs may overtake a job without room only until all jobs have ended that ran when it first had no room.
        """
        ids = {record["id"] for record in waiting}
        self._needs = {job_id: needs for job_id, needs in self._needs.items() if job_id in ids}
        self._waits_for = {job_id: jobs for job_id, jobs in self._waits_for.items() if job_id in ids}
        for record in waiting:
            if not self.active or self._fits(self._needs_of(record), beside):
                return record["id"]
            if not self._may_be_overtaken(record):
                return None
        return None

    def _fits(self, needs: Needs, beside: Collection[Needs]) -> bool:
        if needs.is_alone or any(each.is_alone or (each.has_cluster and needs.has_cluster) for each in self.needs):
            return False
        return sum(each.memory_bytes for each in (needs, *self.needs, *beside)) <= memory_limit()

    def _needs_of(self, record: dict[str, Any]) -> Needs:
        if record["id"] not in self._needs:
            try:
                self._needs[record["id"]] = needs_of(record, self._plan(record))
            except Exception:  # the job is started, and fails with this error
                return Needs()
        return self._needs[record["id"]]

    def _may_be_overtaken(self, record: dict[str, Any]) -> bool:
        if record["id"] not in self._waits_for:
            self._waits_for[record["id"]] = frozenset(self.active)
            self._told(record).info("waits for the memory, the cluster or the end of %s", ", ".join(self.active))
            self._store.explain_job(record["id"], waits_for=sorted(self.active))
        return not self._waits_for[record["id"]].isdisjoint(self.active)

    def _begin(self, record: dict[str, Any]) -> _RunningJob:
        """Start a job: a run of its first lanes that are not done."""
        job_dir = self._directory(record)
        make_directory(job_dir)
        inherit(self._settings.jobs, record)
        plan = self._plan(record)
        if (begun_last(job_dir) is not None or has_checkpoint(job_dir)) and are_dealt_otherwise(job_dir, plan):
            drop_all(job_dir)
            self._store.explain_job(record["id"], reason="folds_dealt_anew")
        drop_unsound(job_dir, plan)
        begin, replan = partial(self._start, record), partial(self._plan, record)
        lanes = LaneRunner(job_dir, self._settings.datasets / record["dataset_id"], begin, replan, ends_on_stop=True)
        running = _RunningJob(record, needs_of(record, plan), lanes)
        lanes.start(plan, abouts_of(job_dir))
        return running

    def _plan(self, record: dict[str, Any]) -> JobPlan:
        """Plan a job by what is known of its dataset. Raises ServiceError if the dataset is gone, or does not suit."""
        return plan_recorded(self._settings, self._store, record)

    def _start(self, record: dict[str, Any], plan: JobPlan) -> RecordedAttempt:
        """Start a run of the plan's next lanes. Raises ServiceError, StorageError, OSError; then it leaves no files."""
        directory = self._directories.place(record, plan.number, plan.run_bytes)
        try:
            run, checkpoint = self._lay_out(record, plan, directory)
            self._directories.show(record["id"], directory)
            run.start()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        told = record["attempt"], run.control["finished_passes"]
        self._told(record).info("attempt %s started after pass %d", *told)
        remove = partial(self._directories.remove, record["id"], directory)
        return RecordedAttempt(record, run, checkpoint, self._store, remove)

    def _lay_out(self, record: dict[str, Any], plan: JobPlan, directory: Path) -> tuple[Run, Checkpoint | None]:
        job_dir, dataset = self._directory(record), self._settings.datasets / record["dataset_id"]
        has_begun = has_checkpoint(job_dir) or (not plan.follows and begun_last(job_dir) is not None)
        checkpoints = checkpoint_place(job_dir, plan)
        note_rows(job_dir, plan, dataset, has_begun)
        begins = beginning(self._store, self._settings, record, plan)
        paths, is_on_disk = (directory, job_dir, dataset, checkpoints), directory.parent != self._settings.cache_dir
        run, checkpoint = launch(plan, self._settings, record["id"], *paths, begins, is_on_disk)
        if checkpoint is None and has_checkpoint(checkpoints):
            self._store.explain_job(record["id"], reason="checkpoint_lost")
        # Readers assume that the history belongs to the current run.
        keep_history(job_dir, plan.passes_before + int(run.control["finished_passes"]))
        return run, checkpoint

    def _watch(self, running: _RunningJob) -> None:
        record, lanes, requested = running.record, running.lanes, self._requested(running.record)
        if requested == "cancel":
            self._cancel(record)
            return
        if requested == "stop":
            lanes.request_stop()
        if lanes.step():
            assert lanes.run is not None
            # A job that has succeeded has its models.
            ended = "stopped" if lanes.is_stopped else "succeeded"
            state, reason = publish(self._settings, self._store, record, lanes.run, lanes.outcome, ended)
            self._drop(record["id"])
            with self._tidying(record):
                settle_lanes(self._directory(record), state == "succeeded")
            self._told(record).info("%s, %s", state, reason)

    def _how_far(self, record: dict[str, Any], trained: float | None) -> tuple[int, dict[str, Any]]:
        """The number of the newest checkpoint among those of all lanes. If it cannot be read, there is none."""
        try:
            lane, directory = newest_lane(self._directory(record))
            newest = newest_checkpoint(directory)
        except Exception:
            self._told(record).exception("its checkpoints cannot be read")
            lane, newest = 0, None
        lost = None if trained is None else lost_seconds(newest, trained)
        number = lane * _CHECKPOINTS_OF_A_LANE + (newest.about["number"] if newest else 0)
        return number, {"lost_seconds": lost, "pass": newest.about["pass"] if newest else 1}

    def _handed_back(self, record: dict[str, Any]) -> Mapping[str, Any]:
        return {"attempt": record["attempt"] - 1}

    def _fail(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        tail = ""
        with suppress(Exception):
            tail = log_tail(self._directory(record) / "log")
        super()._fail(record, {**failure, "log_tail": tail})

    def _tidy(self, record: dict[str, Any]) -> None:
        settle_lanes(self._directory(record), is_complete=False)
        forget_run(record, self._settings)

    def _trained(self, record: dict[str, Any]) -> float | None:
        return self._directories.trained_seconds(record["id"])

    def _sweep(self) -> None:
        """Remove run directories and half-written files; settle the lanes of jobs that have ended."""
        self._directories.remove_all()
        sweep(self._settings.models, {record["id"] for record in self._store.models()})
        for name in OF_EARLIER_VERSIONS:
            for left in self._settings.datasets.glob(f"*/{name}"):
                left.unlink(missing_ok=True)
        states = self._store.job_states()
        sweep(self._settings.jobs, states.keys())
        for job_id in with_lanes(self._settings.jobs):
            if TRANSITIONS.get(state := states.get(job_id, "running")) == ():
                with self._tidying({"id": job_id}):
                    settle_lanes(self._settings.jobs / job_id, state == "succeeded")


def publish(
    settings: Settings, store: Store, record: dict[str, Any], run: Run, outcome: Outcome, state: str
) -> tuple[str, str]:
    """Publish the models of a job, and record that it has ended in this state; `run` is its last one.

    Returns the state it is in, `cancelled` if someone asked for that, and why it stopped. If this raises, the job
    has not ended and no model stays.
    """
    history, result = settings.jobs / record["id"] / HISTORY, outcome.result
    last = progress(run.control, run.lane, outcome.plan.spec, outcome.plan.blocks, last_passes(history))
    sync(history)
    published = publish_models(settings, record["dataset_id"], outcome)
    ids = {each["C"]: each["model_id"] for each in published}
    chosen = ids.get(result.get("selected_C", max(ids, default=None)))
    try:
        state = store.finish(
            record["id"],
            state,
            models=list(ids.values()),
            result={**result, "models": published},
            progress={**last, "eta_seconds": 0},
            model_id=chosen,
        )
    except BaseException:
        is_running = store.job(record["id"])["state"] == "running"
        (unpublish_models if is_running else settle_models)(settings, published)
        raise
    (unpublish_models if state == "cancelled" else settle_models)(settings, published)
    return state, result["stop_reason"]
