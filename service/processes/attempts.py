"""An attempt at a job, or at one of its lanes: what it runs, and the files it begins with."""

import logging
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.prepare import cluster_run, prepare_cluster_run
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import read_spec
from streamsvm.service.jobs.lanes.continuing import keep_history
from streamsvm.service.jobs.lanes.lane_files import begun_last, drop_older_checkpoints, has_checkpoint, lane_directory
from streamsvm.service.jobs.plan.following import FollowPlan, plan_following
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.jobs.plan.trained_rows import note_rows
from streamsvm.service.jobs.plan.warm_start import beginning
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.processes.run import Run, prepare_run
from streamsvm.service.processes.run_directories import RunDirectories
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.run.checkpoint import UNSURE_SLOT, Checkpoint
from streamsvm.storage.run.slowdowns import told

_log = logging.getLogger("streamsvm.worker")


@dataclass
class Attempt:
    """One that is being run.

    checkpoint  it went on from, or None
    done        what is kept of the job's lanes that are done
    """

    record: dict[str, Any]
    plan: JobPlan | FollowPlan
    run: Run
    checkpoint: Checkpoint | None
    done: list[Mapping[str, Any]]
    slowdowns: int = 0  # told so far

    def tell_slowdowns(self, store: Store) -> None:
        """Faster ways that it has given up since, for its record and the log."""
        found, job_id = int(self.run.control["slowdowns"]), self.record["id"]
        new = told(found & ~self.slowdowns)
        if not new:
            return
        with suppress(sqlite3.Error):  # it is told the next time
            known = store.job(job_id)["transitions"][-1].get("slowdowns", [])
            store.explain_job(job_id, slowdowns=[*known, *(each for each in new if each not in known)])
            self.slowdowns = found
            for each in new:
                JobLog(_log, job_id).warning("%s: %s", each["code"], each["message"])

    def distrust_checkpoint(self) -> None:
        """It was not sound: it goes, and what was made from it since."""
        if self.checkpoint:
            for path in (self.checkpoint.path, self.checkpoint.path.with_name(UNSURE_SLOT)):
                path.unlink(missing_ok=True)


class Attempts:
    """At the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.directories = RunDirectories(settings)

    def plan(self, record: dict[str, Any]) -> JobPlan | FollowPlan:
        """What is to be run, as far as the dataset is known. Raises ServiceError if it does not suit, or is gone."""
        spec, state = read_spec(record["spec"]), self._store.dataset_state(record["dataset_id"])
        if state == "ready":
            return plan_job(spec, read_manifest(self._settings.datasets / record["dataset_id"]))
        if state == "ingesting":
            return plan_following(spec, self._settings.max_features)
        teller = "The answer to its upload" if state is None else "The failure of its import"
        raise ServiceError("dataset_lost", "the dataset could not be read in", f"{teller} says why.")

    def start(self, record: dict[str, Any], plan: JobPlan | FollowPlan, done: list[Mapping[str, Any]]) -> Attempt:
        """At the first lanes that are not done, or the last.

        Raises ServiceError, StorageError, OSError, and leaves no files then.
        """
        if isinstance(plan, JobPlan):
            plan = plan.next_lanes(done)
            done = done[: plan.number]
        directory = self.directories.place(record, len(done), plan.run_bytes)
        try:
            run, checkpoint = self._prepare(record, plan, directory)
            self.directories.show(record["id"], directory)
            run.start()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return Attempt(record, plan, run, checkpoint, done)

    def _prepare(
        self, record: dict[str, Any], plan: JobPlan | FollowPlan, directory: Path
    ) -> tuple[Run, Checkpoint | None]:
        job_dir, passes = self._settings.jobs / record["id"], 0
        lane_dir, has_begun = job_dir, has_checkpoint(job_dir)
        if isinstance(plan, JobPlan):
            lane_dir, passes = lane_directory(job_dir, plan), plan.passes_before
            has_begun = has_begun or begun_last(job_dir) is not None
            make_directory(lane_dir)
            drop_older_checkpoints(job_dir, plan)
        dataset = self._settings.datasets / record["dataset_id"]
        note_rows(job_dir, plan, dataset, has_begun)
        begins = beginning(self._store, self._settings, record, plan)
        if isinstance(plan, JobPlan) and plan.spec.machines is not None:
            prepare_cluster_run(directory, plan, dataset, record["id"], self._settings, lane_dir, begins)
            run = cluster_run(directory, job_dir, self._settings)
            keep_history(job_dir, passes + int(run.control["finished_passes"]))
            return run, None
        is_on_disk = directory.parent != self._settings.cache_dir
        checkpoint = prepare_run(directory, plan, dataset, lane_dir, begins, is_on_disk=is_on_disk)
        if checkpoint is None and has_checkpoint(lane_dir):
            self._store.explain_job(record["id"], reason="checkpoint_lost")
        run = Run(directory, job_dir, self._settings.stall_seconds)
        # Who watches takes the history for that of the run that is there.
        keep_history(job_dir, passes + int(run.control["finished_passes"]))
        return run, checkpoint
