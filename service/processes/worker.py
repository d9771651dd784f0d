"""The worker process: takes queued jobs, one at a time, and sees them through.

python -m service.processes.worker DATA_DIRECTORY
"""

import contextlib
import logging
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from service.cluster.connecting import FOR_GOOD
from service.errors import ServiceError
from service.jobs.continuing import inherit
from service.jobs.cross_validation import cross_validation
from service.jobs.following import FollowPlan
from service.jobs.lane_files import abouts_of, keep_outcomes, outcome_of, settle_lanes
from service.jobs.problem import JobPlan
from service.jobs.progress import HISTORY, last_passes, progress
from service.jobs.results import job_result
from service.jobs.states import TRANSITIONS
from service.models.registry import lane_outcome, publish_models, unpublish_models
from service.processes.attempts import Attempt, Attempts
from service.processes.fork_server import fork_server
from service.processes.lock import give_sign, lock, unlock
from service.processes.logs import JobLog, log_as_json
from service.processes.setbacks import Setbacks, describe
from service.records.store import Store
from service.settings import Settings
from storage.child import die_with_parent
from storage.csr import load_kernels
from storage.errors import CheckpointUnsound, DatasetCorrupt, OutOfSpace, StorageError
from storage.kept_rows import release_when_short
from storage.model_file import Model

_POLL_SECONDS, _SIGN_SECONDS = 0.1, 1.0
_NO_CRASHES = (DatasetCorrupt.code, OutOfSpace.code, *FOR_GOOD)
REFUSED = 5  # exit code: another worker has the data directory
_log = logging.getLogger("streamsvm.worker")


class Worker:
    """`setup` is the constructor; `step` does what is due; `shutdown` hands the running job back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = lock(settings.data_dir, "worker")
        self._store = Store(settings.database)
        self._attempts = Attempts(settings, self._store)
        self._active: Attempt | None = None
        self._next_sign = 0.0
        self._setbacks = Setbacks(settings, self._store)
        self._recover()

    def step(self) -> None:
        """Start the next job if none runs, else look after the one that does."""
        if time.monotonic() >= self._next_sign:
            give_sign(self._lock)
            self._setbacks.attend()
            datasets = self._settings.datasets
            release_when_short(datasets, shutil.disk_usage(datasets).free)
            self._next_sign = time.monotonic() + _SIGN_SECONDS
        if self._active is None:
            record = self._store.claim_job(self._setbacks.pausing)
            if record is not None:
                self._begin(record)
        else:
            self._attend(self._active)

    def shutdown(self) -> None:
        """Hand a running job back to the queue, with a checkpoint of where it is."""
        if self._active is not None:
            record = self._active.record
            with contextlib.suppress(ServiceError):  # died, which is what was wanted
                self._active.run.hand_back()
            self._drop_run(self._active)
            self._store.hand_back_job(record["id"])
        unlock(self._lock)

    def _recover(self) -> None:
        """Of what a worker that died left, caches and all that is on no record go; its jobs are queued again."""
        running = self._store.jobs("running")
        trained = {record["id"]: self._attempts.directories.trained_seconds(record["id"]) for record in running}
        self._attempts.directories.remove_all()
        recorded = {record["id"] for record in (*self._store.models(), *self._store.jobs())}
        for directory in (*self._settings.models.iterdir(), *self._settings.jobs.iterdir()):
            if directory.name not in recorded:
                shutil.rmtree(directory, ignore_errors=True)
        for record in self._store.jobs():
            if not TRANSITIONS[record["state"]]:
                settle_lanes(self._settings.jobs / record["id"], record["state"] == "succeeded")
        for record in running:
            JobLog(_log, record["id"]).warning("its worker died, attempt %s", record["attempt"])
            died = ServiceError("worker_died", "the worker ended while the job ran")
            self._setbacks.retry(record, died, trained[record["id"]])

    def _begin(self, record: dict[str, Any]) -> None:
        """Start a job, or its first lane that is not done."""
        job_dir = self._settings.jobs / record["id"]
        try:
            job_dir.mkdir(exist_ok=True)
            inherit(self._settings.jobs, record)
            plan = self._attempts.plan(record)
            done = abouts_of(job_dir)
        except (ServiceError, StorageError, OSError) as error:
            self._setbacks.fail_or_pause(record, describe(error))
            return
        self._start(record, plan, done)

    def _start(self, record: dict[str, Any], plan: JobPlan | FollowPlan, done: list[Mapping[str, Any]]) -> None:
        try:
            self._active = self._attempts.start(record, plan, done)
        except (ServiceError, StorageError, OSError) as error:
            self._setbacks.fail_or_pause(record, describe(error))
            return
        told = record["attempt"], self._active.run.control["finished_passes"]
        JobLog(_log, record["id"]).info("attempt %s started after pass %d", *told)

    def _attend(self, active: Attempt) -> None:
        requested = self._store.job(active.record["id"])["requested"]
        if requested == "cancel":
            self._cancel(active)
            return
        if requested == "stop":
            active.run.request_stop()
        try:
            if isinstance(active.plan, FollowPlan):
                active.plan = self._attempts.plan(active.record)
                if isinstance(active.plan, JobPlan) and len(active.plan.lanes) > 1:
                    # It took two labels for all there are: to be begun anew.
                    self._drop_run(active)
                    self._start(active.record, active.plan, [])
                    return
        except (ServiceError, StorageError) as error:
            self._drop_run(active)
            self._setbacks.fail_or_pause(active.record, describe(error))
            return
        try:
            finished = active.run.poll()
        except ServiceError as error:
            JobLog(_log, active.record["id"]).warning(error.message)
            if error.code == CheckpointUnsound.code:
                active.distrust_checkpoint()
            trained = active.run.control["elapsed_seconds"]
            self._drop_run(active)
            if error.code in _NO_CRASHES:
                self._setbacks.fail_or_pause(active.record, describe(error))
            else:
                self._setbacks.retry(active.record, error, trained)
            return
        if finished and isinstance(active.plan, JobPlan):
            self._finish(active, active.plan)

    def _finish(self, active: Attempt, plan: JobPlan) -> None:
        """Go on with the next lanes, or publish the models, then say so: a job that has succeeded has its models."""
        record, job_dir = active.record, self._settings.jobs / active.record["id"]
        reported = active.run.results()
        is_stopped = "stopped" in {each["stop_reason"] for each in reported}
        try:
            done, kept = self._outcomes(active, plan, reported)
            if len(done) < len(plan.lanes) and not is_stopped:
                self._drop_run(active)
                self._start(record, plan, done)
                return
            folds = cross_validation(plan, job_dir, len(done))
            result = {**job_result(plan.lanes, done), **(folds.view if folds else {})}
            published = publish_models(self._settings, record["dataset_id"], plan, len(done), kept, folds)
        except (ServiceError, StorageError, OSError) as error:
            self._drop_run(active)
            self._setbacks.fail_or_pause(record, describe(error))
            return
        state = "stopped" if is_stopped else "succeeded"
        self._conclude(active, plan, state, {**result, "models": published})

    def _outcomes(
        self, active: Attempt, plan: JobPlan, reported: list[dict[str, Any]]
    ) -> tuple[list[Mapping[str, Any]], Callable[[int], Model]]:
        """What is kept of all lanes that are done, and what each came to, by its number."""
        job_dir, run = self._settings.jobs / active.record["id"], active.run.directory
        make = partial(lane_outcome, plan, self._settings.datasets / active.record["dataset_id"], run, reported)
        if len(plan.lanes) == 1:
            outcome = make(0)
            return [outcome.about], lambda _: outcome
        keep_outcomes(job_dir, plan, run, make)
        return abouts_of(job_dir), partial(outcome_of, job_dir)

    def _conclude(self, active: Attempt, plan: JobPlan, state: str, result: dict[str, Any]) -> None:
        """The job has ended, and its models are published."""
        record, run = active.record, active.run
        history = last_passes(self._settings.jobs / record["id"] / HISTORY)
        last = {**progress(run.control, run.lane, plan.spec, plan.blocks, history), "eta_seconds": 0}
        ids = {each["C"]: each["model_id"] for each in result["models"]}
        chosen = ids.get(result.get("selected_C", max(ids, default=None)))
        state = self._store.finish_job(
            record["id"], state, models=list(ids.values()), result=result, progress=last, model_id=chosen
        )
        if state == "cancelled":
            unpublish_models(self._settings, result["models"])
        self._drop_run(active)
        settle_lanes(self._settings.jobs / record["id"], state == "succeeded")
        JobLog(_log, record["id"]).info("%s, %s", state, result["stop_reason"])

    def _cancel(self, active: Attempt) -> None:
        self._drop_run(active)
        self._store.finish_job(active.record["id"], "cancelled")
        self._setbacks.tidy(active.record)
        JobLog(_log, active.record["id"]).info("cancelled")

    def _drop_run(self, active: Attempt) -> None:
        active.run.kill()
        self._attempts.directories.remove(active.record["id"], active.run.directory)
        self._active = None


def main(data_dir: Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; the running job goes back to the queue."""
    die_with_parent()
    log_as_json()
    settings = Settings.from_environment(data_dir)
    settings.create_directories()
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    fork_server()  # ready by the time that there is a job, and the first kernel here by that of its model
    load_kernels()
    try:
        worker = Worker(settings)
    except ServiceError as error:
        print(error.message, file=sys.stderr)
        return REFUSED
    try:
        while not stopping:
            worker.step()
            time.sleep(_POLL_SECONDS)
    finally:
        worker.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
