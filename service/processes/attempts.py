"""The worker's attempts at a job: plans an attempt, starts its run, and ends the job when its lanes are done."""

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.lanes.continuing import keep_history
from streamsvm.service.jobs.lanes.lane_files import begun_last, checkpoint_place, has_checkpoint
from streamsvm.service.jobs.lanes.outcome import Outcome
from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.service.jobs.lanes.warm_start import beginning, note_rows
from streamsvm.service.jobs.plan.plan import JobPlan, plan_recorded
from streamsvm.service.jobs.progress.progress import HISTORY, last_passes, progress
from streamsvm.service.models.registry import publish_models, settle_models, unpublish_models
from streamsvm.service.processes.launch import LASTING, RunPlace, launch
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.processes.run_directories import RunDirectories
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import CheckpointUnsound
from streamsvm.storage.files.durable import sync
from streamsvm.storage.run.checkpoint import UNSURE_SLOT, Checkpoint
from streamsvm.storage.run.slowdowns import told

_log = logging.getLogger("streamsvm.worker")


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
            if error.code == CheckpointUnsound.code:
                self._distrust_checkpoint()
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

    def _distrust_checkpoint(self) -> None:
        """Remove the checkpoint of the run, which was not sound, and the checkpoint that the run has made since."""
        if self.checkpoint:
            for path in (self.checkpoint.path, self.checkpoint.path.with_name(UNSURE_SLOT)):
                path.unlink(missing_ok=True)


class Attempts:
    """Plans and begins attempts at the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.directories = RunDirectories(settings)

    def plan(self, record: dict[str, Any]) -> JobPlan:
        """Plan a job by what is known of its dataset. Raises ServiceError if the dataset is gone, or does not suit."""
        return plan_recorded(self._settings, self._store, record)

    def begin(self, record: dict[str, Any], plan: JobPlan) -> RecordedAttempt:
        """Start a run of the plan's next lanes. Raises ServiceError, StorageError, OSError; then it leaves no files."""
        directory = self.directories.place(record, plan.number, plan.run_bytes)
        try:
            run, checkpoint = self._lay_out(record, plan, directory)
            self.directories.show(record["id"], directory)
            run.start()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        told = record["attempt"], run.control["finished_passes"]
        JobLog(_log, record["id"]).info("attempt %s started after pass %d", *told)
        remove = lambda: self.directories.remove(record["id"], directory)  # noqa: E731
        return RecordedAttempt(record, run, checkpoint, self._store, remove)

    def _lay_out(self, record: dict[str, Any], plan: JobPlan, directory: Path) -> tuple[Run, Checkpoint | None]:
        job_dir, dataset = self._settings.jobs / record["id"], self._settings.datasets / record["dataset_id"]
        has_begun = has_checkpoint(job_dir) or (not plan.follows and begun_last(job_dir) is not None)
        checkpoints = checkpoint_place(job_dir, plan)
        note_rows(job_dir, plan, dataset, has_begun)
        begins = beginning(self._store, self._settings, record, plan)
        place = RunPlace(directory, job_dir, dataset, checkpoints, directory.parent != self._settings.cache_dir)
        run, checkpoint = launch(plan, place, self._settings, record["id"], begins)
        if checkpoint is None and has_checkpoint(checkpoints):
            self._store.explain_job(record["id"], reason="checkpoint_lost")
        # Readers assume that the history belongs to the current run.
        keep_history(job_dir, plan.passes_before + int(run.control["finished_passes"]))
        return run, checkpoint


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
