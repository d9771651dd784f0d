"""The worker process: takes queued jobs, one at a time, and sees them through.

python -m streamsvm.service.processes.worker DATA_DIRECTORY
"""

import contextlib
import logging
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.connecting import FOR_GOOD
from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.lanes.continuing import inherit
from streamsvm.service.jobs.lanes.lane_files import abouts_of, settle_lanes, with_lanes
from streamsvm.service.jobs.lanes.lost_lanes import drop_unsound
from streamsvm.service.jobs.plan.following import FollowPlan
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.processes.attempts import Attempt, Attempts
from streamsvm.service.processes.ending import Ending
from streamsvm.service.processes.fork_server import fork_server
from streamsvm.service.processes.lock import give_sign, lock, unlock
from streamsvm.service.processes.logs import JobLog, log_as_json
from streamsvm.service.processes.queue import Queue
from streamsvm.service.processes.retry_policy import Setbacks, WorkerDied
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.unrecorded import sweep
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import CheckpointUnsound, DatasetCorrupt, OutOfSpace, ValuesOverflow
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.child import die_with_parent, keep_private
from streamsvm.storage.rows.csr import load_kernels
from streamsvm.storage.rows.decoded_row_cache import release_when_short

_POLL_SECONDS, _SIGN_SECONDS = 0.1, 1.0
_NO_CRASHES = (DatasetCorrupt.code, OutOfSpace.code, ValuesOverflow.code, *FOR_GOOD)
REFUSED, UNUSABLE = 5, 1  # exit codes: another worker has the data directory; it, or its store, cannot be used
_log = logging.getLogger("streamsvm.worker")


class Worker:
    """`setup` is the constructor; `step` does what is due; `shutdown` hands the running job back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._lock = lock(settings.data_dir, "worker")
        self._attempts = Attempts(settings, self._store)
        self._active: Attempt | None = None
        self._next_sign = 0.0
        self._setbacks = Setbacks(settings, self._store)
        self._queue = Queue(self._store)
        self._ending = Ending(settings, self._store)
        self._recover()

    def step(self) -> None:
        """Start the next job if none runs, else look after the one that does. What goes wrong with a job costs it."""
        if time.monotonic() >= self._next_sign:
            give_sign(self._lock)
            self._next_sign = time.monotonic() + _SIGN_SECONDS
            self._keep_house()
        record = self._active.record if self._active else self._queue.claim(self._setbacks.pausing)
        if record is None:
            return
        try:
            if self._active is None:
                self._begin(record)
            else:
                self._attend(self._active)
        except BaseException as error:
            # Of any kind: left to end this process, it would come again with the same job, and no other would run.
            trained = self._drop()
            self._setbacks.settle(record, error, trained)

    def shutdown(self) -> None:
        """Hand a running job back to the queue, with a checkpoint of where it is."""
        if self._active is not None:
            record = self._active.record
            with contextlib.suppress(Exception):  # died, which is what was wanted
                self._active.run.hand_back()
            self._drop()
            self._store.hand_back_job(record["id"])
        unlock(self._lock)

    def _keep_house(self) -> None:
        """Do what is due from time to time for no job that runs; what fails is tried the next time."""
        datasets = self._settings.datasets
        release = lambda: release_when_short(datasets, shutil.disk_usage(datasets).free)  # noqa: E731
        for due in (self._setbacks.attend, release):
            try:
                due()
            except Exception:
                _log.exception("not done now, tried again")

    def _recover(self) -> None:
        """Remove caches and what is half-done of a worker that died; queue its jobs again."""
        running = self._store.jobs("running")
        # Before anything of theirs is looked at: that may be what it died of.
        died = {record["id"]: WorkerDied(self._store.count_crash(record["id"])) for record in running}
        trained = {job_id: self._trained_seconds(job_id, error) for job_id, error in died.items()}
        self._attempts.directories.remove_all()
        sweep(self._settings.models, {record["id"] for record in self._store.models()})
        states = self._store.job_states()
        sweep(self._settings.jobs, states.keys())
        for job_id in with_lanes(self._settings.jobs):
            if TRANSITIONS.get(state := states.get(job_id, "running")) == ():
                self._settle_lanes(job_id, state == "succeeded")
        for record in running:
            JobLog(_log, record["id"]).warning("its worker died, attempt %s", record["attempt"])
            self._setbacks.settle(record, died[record["id"]], trained[record["id"]])

    def _trained_seconds(self, job_id: str, died: WorkerDied) -> float | None:
        if died.times > self._settings.max_crashes:
            return None
        try:
            return self._attempts.directories.trained_seconds(job_id)
        except Exception:
            JobLog(_log, job_id).exception("how long it was trained is not known")
            return None

    def _begin(self, record: dict[str, Any]) -> None:
        """Start a job, or its first lane that is not done."""
        job_dir = self._settings.jobs / record["id"]
        make_directory(job_dir)
        inherit(self._settings.jobs, record)
        plan = self._attempts.plan(record)
        drop_unsound(job_dir, plan)
        self._start(record, plan, abouts_of(job_dir))

    def _start(self, record: dict[str, Any], plan: JobPlan | FollowPlan, done: list[Mapping[str, Any]]) -> None:
        self._active = self._attempts.start(record, plan, done)
        told = record["attempt"], self._active.run.control["finished_passes"]
        JobLog(_log, record["id"]).info("attempt %s started after pass %d", *told)

    def _attend(self, active: Attempt) -> None:
        requested = self._requested(active)
        if requested == "cancel":
            self._cancel(active)
            return
        if requested == "stop":
            active.run.request_stop()
        if isinstance(active.plan, FollowPlan):
            active.plan = self._attempts.plan(active.record)
            if isinstance(active.plan, JobPlan) and len(active.plan.lanes) > 1:
                # It took two labels for all there are: to be begun anew.
                self._go_on(active, active.plan, [])
                return
        has_ended = self._poll(active)
        active.tell_slowdowns(self._store)
        if has_ended and isinstance(active.plan, JobPlan):
            self._finish(active, active.plan)

    def _requested(self, active: Attempt) -> str | None:
        """The request on record: to stop, say. A store that cannot be read now is asked the next time."""
        try:
            return self._store.job(active.record["id"])["requested"]
        except sqlite3.Error:
            return None

    def _poll(self, active: Attempt) -> bool:
        try:
            return active.run.poll()
        except ServiceError as error:
            JobLog(_log, active.record["id"]).warning(error.message)
            if error.code == CheckpointUnsound.code:
                active.distrust_checkpoint()
            if error.code in _NO_CRASHES:
                raise
            raise Crash(error.code, error.message, error.hint) from error

    def _finish(self, active: Attempt, plan: JobPlan) -> None:
        """Go on with the next lanes, or publish the models, then say so: a job that has succeeded has its models."""
        reported = active.run.results()
        is_stopped = "stopped" in {each["stop_reason"] for each in reported}
        done, kept = self._ending.outcomes(active, plan, reported)
        if len(done) < len(plan.lanes) and not is_stopped:
            self._go_on(active, plan, done)
            return
        state, reason = self._ending.publish(active, plan, done, kept, "stopped" if is_stopped else "succeeded")
        self._drop()
        self._settle_lanes(active.record["id"], state == "succeeded")
        JobLog(_log, active.record["id"]).info("%s, %s", state, reason)

    def _go_on(self, active: Attempt, plan: JobPlan, done: list[Mapping[str, Any]]) -> None:
        self._drop()
        self._start(active.record, plan, done)

    def _cancel(self, active: Attempt) -> None:
        self._drop()
        self._store.finish_job(active.record["id"], "cancelled")
        self._setbacks.tidy(active.record)
        JobLog(_log, active.record["id"]).info("cancelled")

    def _settle_lanes(self, job_id: str, is_complete: bool) -> None:
        """Settle the lanes of a job that has ended; an error changes nothing in how it ended."""
        try:
            settle_lanes(self._settings.jobs / job_id, is_complete)
        except Exception:
            JobLog(_log, job_id).exception("some of what it left stays")

    def _drop(self) -> float | None:
        """End the attempt that runs, if one does; the seconds that it has trained."""
        active, self._active = self._active, None
        if active is None:
            return None
        try:
            active.run.kill()
        except Exception:
            # Without its directory a trainer keeps nothing; its processes end with this one.
            JobLog(_log, active.record["id"]).exception("its processes may still run")
        self._attempts.directories.remove(active.record["id"], active.run.directory)
        return active.run.control["elapsed_seconds"]


def main(data_dir: Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; the running job goes back to the queue."""
    die_with_parent()
    keep_private()
    log_as_json()
    settings = Settings.from_environment(data_dir)
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    fork_server()  # ready by the time that there is a job, and the first kernel here by that of its model
    load_kernels()
    try:
        worker = Worker(settings)
    except ServiceError as error:
        print(f"streamsvm: {error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return REFUSED if error.code == "already_running" else UNUSABLE
    # An error that is of no job ends the process as it is: the next one counts what it had begun.
    try:
        while not stopping:
            worker.step()
            time.sleep(_POLL_SECONDS)
    except sqlite3.Error as error:
        _log.error("the records cannot be read or written: %s", error)
        return UNUSABLE
    worker.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
