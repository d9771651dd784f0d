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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.lanes.continuing import drop_unsound, inherit
from streamsvm.service.jobs.lanes.lane_files import abouts_of, settle_lanes, with_lanes
from streamsvm.service.jobs.lanes.runner import LaneRunner
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.processes.attempts import Attempts, Ending
from streamsvm.service.processes.forking import serve_here
from streamsvm.service.processes.health import give_sign, lock, unlock
from streamsvm.service.processes.logs import JobLog, log_as_json
from streamsvm.service.processes.queue import Queue
from streamsvm.service.processes.retry_policy import Setbacks, WorkerDied
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.unrecorded import sweep
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.child import die_with_parent, keep_private
from streamsvm.storage.rows.decoded_row_cache import release_when_short

_POLL_SECONDS, _SIGN_SECONDS = 0.1, 1.0
REFUSED, UNUSABLE = 5, 1  # exit codes: another worker has the data directory; it, or its store, cannot be used
_log = logging.getLogger("streamsvm.worker")


class _Active(NamedTuple):
    """The running job: its record, and the runner of its lanes."""

    record: dict[str, Any]
    lanes: LaneRunner


class Worker:
    """`setup` is the constructor; `step` does what is due; `shutdown` hands the running job back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._lock = lock(settings.data_dir, "worker")
        self._attempts = Attempts(settings, self._store)
        self._active: _Active | None = None
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
            # Any error: if it ended this process, the same job would cause it again, and no other job would run.
            trained = self._drop()
            self._setbacks.settle(record, error, trained)

    def shutdown(self) -> None:
        """Hand a running job back to the queue, with a checkpoint of where it is."""
        if self._active is not None:
            record = self._active.record
            with contextlib.suppress(Exception):  # died, which is what was wanted
                self._active.lanes.hand_back()
            self._drop()
            self._store.hand_back_job(record["id"])
        unlock(self._lock)

    def _keep_house(self) -> None:
        """Do the regular work that belongs to no running job; work that fails is tried again the next time."""
        datasets = self._settings.datasets
        release = lambda: release_when_short(datasets, shutil.disk_usage(datasets).free)  # noqa: E731
        for due in (self._setbacks.attend, release):
            try:
                due()
            except Exception:
                _log.exception("not done now, tried again")

    def _recover(self) -> None:
        """Remove run directories and half-written files that a worker left when it died; queue its jobs again."""
        running = self._store.jobs("running")
        # Crashes are counted before the jobs' files are read: the worker may have died of reading them.
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
        """Start a job, or its first lanes that are not done."""
        job_dir = self._settings.jobs / record["id"]
        make_directory(job_dir)
        inherit(self._settings.jobs, record)
        plan = self._attempts.plan(record)
        drop_unsound(job_dir, plan)
        dataset = self._settings.datasets / record["dataset_id"]
        begin, replan = partial(self._attempts.begin, record), partial(self._attempts.plan, record)
        lanes = LaneRunner(job_dir, dataset, begin, replan, ends_on_stop=True)
        self._active = _Active(record, lanes)
        lanes.start(plan, abouts_of(job_dir))

    def _attend(self, active: "_Active") -> None:
        requested = self._requested(active.record)
        if requested == "cancel":
            self._cancel(active.record)
            return
        if requested == "stop":
            active.lanes.request_stop()
        if active.lanes.step():
            self._finish(active.record, active.lanes)

    def _requested(self, record: dict[str, Any]) -> str | None:
        """The request on record: to stop, say. A store that cannot be read now is asked the next time."""
        try:
            return self._store.job(record["id"])["requested"]
        except sqlite3.Error:
            return None

    def _finish(self, record: dict[str, Any], lanes: LaneRunner) -> None:
        """Publish the models, then say so: a job that has succeeded has its models."""
        assert lanes.run is not None
        ended = "stopped" if lanes.is_stopped else "succeeded"
        state, reason = self._ending.publish(record, lanes.run, lanes.outcome, ended)
        self._drop()
        self._settle_lanes(record["id"], state == "succeeded")
        JobLog(_log, record["id"]).info("%s, %s", state, reason)

    def _cancel(self, record: dict[str, Any]) -> None:
        self._drop()
        self._store.finish_job(record["id"], "cancelled")
        self._setbacks.tidy(record)
        JobLog(_log, record["id"]).info("cancelled")

    def _settle_lanes(self, job_id: str, is_complete: bool) -> None:
        """Settle the lanes of a job that has ended; an error changes nothing in how it ended."""
        try:
            settle_lanes(self._settings.jobs / job_id, is_complete)
        except Exception:
            JobLog(_log, job_id).exception("some of what it left stays")

    def _drop(self) -> float | None:
        """End the run of the job, if there is one; the seconds that it has trained."""
        active, self._active = self._active, None
        run = active and active.lanes.run
        if active is None or run is None:
            return None
        active.lanes.close()
        return run.control["elapsed_seconds"]


def main(data_dir: str | Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; the running job goes back to the queue."""
    die_with_parent()
    keep_private()
    serve_here()  # before there are signals, a log and locks of this process
    log_as_json()
    settings = Settings.from_environment(Path(data_dir))
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: stopping.append(received))
    try:
        worker = Worker(settings)
    except ServiceError as error:
        print(f"streamsvm: {error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return REFUSED if error.code == "already_running" else UNUSABLE
    # An error outside of jobs ends the process; the next worker counts the running jobs as crashed.
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
    sys.exit(main(sys.argv[1]))
