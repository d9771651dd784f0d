"""The worker process: takes queued jobs, one at a time, and sees them through.

python -m service.worker DATA_DIRECTORY
"""

import contextlib
import logging
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from service.continuing import has_checkpoint, inherit, keep_history
from service.errors import ServiceError
from service.following import FollowPlan, plan_following
from service.fork_server import fork_server
from service.lock import give_sign, lock, unlock
from service.logs import JobLog, log_as_json
from service.models import publish_model
from service.problem import JobPlan, plan_job
from service.progress import HISTORY, last_passes, progress
from service.run import Run, prepare_run
from service.run_directories import RunDirectories
from service.setbacks import Setbacks, describe
from service.settings import Settings
from service.store import Store
from service.stored_specs import read_spec
from service.warm_start import warm_start
from storage.checkpoint import UNSURE_SLOT, Checkpoint
from storage.child import die_with_parent
from storage.csr import load_kernels
from storage.dataset import read_manifest
from storage.errors import CheckpointUnsound, DatasetCorrupt, OutOfSpace, StorageError
from storage.kept_rows import release_when_short

_POLL_SECONDS = 0.1
_SIGN_SECONDS = 1.0
_NO_CRASHES = (DatasetCorrupt.code, OutOfSpace.code)
REFUSED = 5  # exit code: another worker has the data directory
_log = logging.getLogger("streamsvm.worker")


@dataclass
class _Active:
    """The job being run."""

    record: dict[str, Any]
    plan: JobPlan | FollowPlan
    run: Run
    checkpoint: Checkpoint | None


class Worker:
    """`setup` is the constructor; `step` does what is due; `shutdown` hands the running job back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = lock(settings.data_dir, "worker")
        self._store = Store(settings.database)
        self._directories = RunDirectories(settings)
        self._active: _Active | None = None
        self._next_sign = 0.0
        self._setbacks = Setbacks(settings, self._store)
        self._recover()

    def step(self) -> None:
        """Start the next job if none runs, else look after the one that does."""
        if time.monotonic() >= self._next_sign:
            give_sign(self._lock)
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
        trained = {record["id"]: self._directories.trained_seconds(record["id"]) for record in running}
        self._directories.remove_all()
        recorded = {record["id"] for record in (*self._store.models(), *self._store.jobs())}
        for directory in (*self._settings.models.iterdir(), *self._settings.jobs.iterdir()):
            if directory.name not in recorded:
                shutil.rmtree(directory, ignore_errors=True)
        for record in running:
            JobLog(_log, record["id"]).warning("its worker died, attempt %s", record["attempt"])
            died = ServiceError("worker_died", "the worker ended while the job ran")
            self._setbacks.retry(record, died, trained[record["id"]])

    def _begin(self, record: dict[str, Any]) -> None:
        job_id = record["id"]
        job_dir = self._settings.jobs / job_id
        dataset = self._settings.datasets / record["dataset_id"]
        directory: Path | None = None
        try:
            job_dir.mkdir(exist_ok=True)
            inherit(self._settings.jobs, record)
            plan = self._plan(record)
            directory = self._directories.place(record, plan.run_bytes)
            warm = warm_start(self._store, self._settings.jobs, plan.spec)
            checkpoint = prepare_run(directory, plan, dataset, job_dir, warm)
            if checkpoint is None and has_checkpoint(self._settings.jobs, job_id):
                self._store.explain_job(job_id, reason="checkpoint_lost")
            run = Run(directory, job_dir, self._settings.stall_seconds)
            # Who watches takes the history for that of the run that is there.
            keep_history(job_dir, int(run.control["finished_passes"]))
            self._directories.show(job_id, directory)
            run.start()
        except (ServiceError, StorageError, OSError) as error:
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
            self._setbacks.fail_or_pause(record, describe(error))
            return
        self._active = _Active(record, plan, run, checkpoint)
        JobLog(_log, job_id).info("attempt %s started after pass %d", record["attempt"], run.control["finished_passes"])

    def _plan(self, record: dict[str, Any]) -> JobPlan | FollowPlan:
        """What is to be run, as far as the dataset is known. Raises ServiceError if it does not suit, or is gone."""
        spec, state = read_spec(record["spec"]), self._store.dataset_state(record["dataset_id"])
        if state == "ready":
            return plan_job(spec, read_manifest(self._settings.datasets / record["dataset_id"]))
        if state == "ingesting":
            return plan_following(spec, self._settings.max_features)
        raise ServiceError("dataset_lost", "the dataset could not be read in", "The answer to its upload says why.")

    def _attend(self, active: _Active) -> None:
        requested = self._store.job(active.record["id"])["requested"]
        if requested == "cancel":
            self._cancel(active)
            return
        if requested == "stop":
            active.run.request_stop()
        try:
            if isinstance(active.plan, FollowPlan):
                active.plan = self._plan(active.record)
        except (ServiceError, StorageError) as error:
            self._drop_run(active)
            self._setbacks.fail_or_pause(active.record, describe(error))
            return
        try:
            finished = active.run.poll()
        except ServiceError as error:
            JobLog(_log, active.record["id"]).warning(error.message)
            if error.code == CheckpointUnsound.code and active.checkpoint:
                # And what was made from it since.
                for path in (active.checkpoint.path, active.checkpoint.path.with_name(UNSURE_SLOT)):
                    path.unlink(missing_ok=True)
            trained = active.run.control["elapsed_seconds"]
            self._drop_run(active)
            if error.code in _NO_CRASHES:
                self._setbacks.fail_or_pause(active.record, describe(error))
            else:
                self._setbacks.retry(active.record, error, trained)
            return
        if finished and isinstance(active.plan, JobPlan):
            self._finish(active, active.plan)

    def _finish(self, active: _Active, plan: JobPlan) -> None:
        """Publish the model, then say so: a job that has succeeded has its model."""
        record, run = active.record, active.run
        result = run.result()
        try:
            model_id = publish_model(
                self._settings, plan, self._settings.datasets / record["dataset_id"], run.directory, result
            )
        except (StorageError, OSError) as error:
            self._drop_run(active)
            self._setbacks.fail_or_pause(record, describe(error))
            return
        history = last_passes(self._settings.jobs / record["id"] / HISTORY)
        elapsed = run.control["elapsed_seconds"]
        last = {**progress(run.control, plan.spec, plan.blocks, elapsed, history), "eta_seconds": 0}
        state = "stopped" if result["stop_reason"] == "stopped" else "succeeded"
        state = self._store.finish_job(record["id"], state, result=result, progress=last, model_id=model_id)
        if state == "cancelled":
            shutil.rmtree(self._settings.models / model_id)
        self._drop_run(active)
        JobLog(_log, record["id"]).info("%s, %s", state, result["stop_reason"])

    def _cancel(self, active: _Active) -> None:
        self._drop_run(active)
        self._store.finish_job(active.record["id"], "cancelled")
        JobLog(_log, active.record["id"]).info("cancelled")

    def _drop_run(self, active: _Active) -> None:
        active.run.kill()
        self._directories.remove(active.record["id"], active.run.directory)
        self._active = None


def main(data_dir: Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; the running job goes back to the queue."""
    die_with_parent()
    log_as_json()
    settings = Settings.from_environment(data_dir)
    settings.create_directories()
    stopping = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
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
