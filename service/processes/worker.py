"""The worker process: takes jobs from the queue, several at a time, and runs each to its end; predicts files as well.

python -m streamsvm.service.processes.worker DATA_DIRECTORY
"""

import contextlib
import logging
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.forking import serve_here
from streamsvm.service.jobs.lanes.continuing import drop_unsound, inherit
from streamsvm.service.jobs.lanes.lane_files import abouts_of, settle_lanes, with_lanes
from streamsvm.service.jobs.lanes.runner import LaneRunner
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.predictions.lane import PredictionLane
from streamsvm.service.processes.attempts import Attempts, Ending
from streamsvm.service.processes.health import give_sign, lock, unlock
from streamsvm.service.processes.logs import JobLog, log_as_json
from streamsvm.service.processes.queue import Needs, Queue
from streamsvm.service.processes.retry_policy import Setbacks, WorkerDied
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.table import LastRead
from streamsvm.service.records.unrecorded import sweep
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import OF_EARLIER_VERSIONS
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.child import die_with_parent, keep_private

_POLL_SECONDS, _SIGN_SECONDS = 0.1, 1.0
REFUSED, UNUSABLE = 5, 1  # exit codes: another worker has the data directory; directory or store cannot be used
_log = logging.getLogger("streamsvm.worker")


class _RunningJob(NamedTuple):
    """A running job: its record, the runner of its lanes, and the resources that it needs."""

    record: dict[str, Any]
    lanes: LaneRunner
    needs: Needs


class Worker:
    """Runs the jobs of a data directory: `step` does what is due; `shutdown` puts running jobs back in the queue."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._lock = lock(settings.data_dir, "worker")
        self._attempts = Attempts(settings, self._store)
        self._active: dict[str, _RunningJob] = {}
        self._next_sign = 0.0
        self._setbacks = Setbacks(settings, self._store)
        self._queue = Queue(self._store, self._attempts.plan)
        self._ending = Ending(settings, self._store)
        self._predictions = PredictionLane(settings, self._store)
        self._requests = LastRead(self._store, self._store.requests)
        self._recover()

    def step(self) -> None:
        """Attend to the jobs that run, and start the next jobs if there is room."""
        if time.monotonic() >= self._next_sign:
            give_sign(self._lock)
            self._next_sign = time.monotonic() + _SIGN_SECONDS
            self._keep_house()
        self._predictions.step(is_training=bool(self._active))
        for active in list(self._active.values()):
            with self._settling(active.record):
                self._attend(active)
        self._fill()

    def _fill(self) -> None:
        """Start the next jobs as long as there is room. If one cannot be started, others wait for the next step."""
        while len(self._active) < self._settings.jobs_at_once:
            running = {job_id: active.needs for job_id, active in self._active.items()}
            record = self._queue.claim(self._setbacks.pausing, running, self._predictions.memory_bytes)
            if record is None:
                return
            with self._settling(record):
                self._begin(record)
            if record["id"] not in self._active:
                return

    @contextlib.contextmanager
    def _settling(self, record: dict[str, Any]) -> Iterator[None]:
        """Treat an error in the block as a failure of this job alone."""
        try:
            yield
        except BaseException as error:
            # Any error: if it ended this process, the same job would cause it again, and no other job would run.
            trained = self._drop(record["id"])
            self._setbacks.settle(record, error, trained)

    def shutdown(self) -> None:
        """Put the running jobs back into the queue. Before, all make checkpoints of their state at the same time."""
        threads = [Thread(target=_hand_back, args=(active.lanes,)) for active in self._active.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for job_id in list(self._active):
            self._drop(job_id)
            self._store.requeue(job_id, {"attempt": self._store.job(job_id)["attempt"] - 1})
        self._predictions.shutdown()
        unlock(self._lock)

    def _keep_house(self) -> None:
        """Do the regular work that belongs to no running job; after an error it is tried again the next time."""
        try:
            self._setbacks.attend()
        except Exception:
            _log.exception("not done now, tried again")

    def _recover(self) -> None:
        """Remove run directories and half-written files of a worker that died; put its running jobs in the queue."""
        self._predictions.recover()
        running = self._store.jobs("running")
        if len(running) > 1:
            # One of these jobs may have killed the worker: each now runs alone, so that a crash shows which job it was.
            for record in running:
                self._store.requeue(record["id"], reason=WorkerDied.code, alone=True)
            running = []
        # Crashes are counted before the jobs' files are read: the worker may have died of reading them.
        died = {record["id"]: WorkerDied(self._store.count_crash(record["id"])) for record in running}
        trained = {job_id: self._trained_seconds(job_id, error) for job_id, error in died.items()}
        self._attempts.directories.remove_all()
        sweep(self._settings.models, {record["id"] for record in self._store.models()})
        for name in OF_EARLIER_VERSIONS:
            for left in self._settings.datasets.glob(f"*/{name}"):
                left.unlink(missing_ok=True)
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
        """Start a job: a run of its first lanes that are not done."""
        job_dir = self._settings.jobs / record["id"]
        make_directory(job_dir)
        inherit(self._settings.jobs, record)
        plan = self._attempts.plan(record)
        drop_unsound(job_dir, plan)
        begin, replan = partial(self._attempts.begin, record), partial(self._attempts.plan, record)
        lanes = LaneRunner(job_dir, self._settings.datasets / record["dataset_id"], begin, replan, ends_on_stop=True)
        self._active[record["id"]] = _RunningJob(record, lanes, Needs.of(record, plan))
        lanes.start(plan, abouts_of(job_dir))

    def _attend(self, active: "_RunningJob") -> None:
        requested = None
        with contextlib.suppress(sqlite3.Error):  # a store that cannot be read now is asked the next time
            requested = self._requests().get(active.record["id"])
        if requested == "cancel":
            self._cancel(active.record)
            return
        if requested == "stop":
            active.lanes.request_stop()
        if active.lanes.step():
            self._finish(active.record, active.lanes)

    def _finish(self, record: dict[str, Any], lanes: LaneRunner) -> None:
        """Publish the models of a job before its end is recorded: a job that has succeeded has its models."""
        assert lanes.run is not None
        ended = "stopped" if lanes.is_stopped else "succeeded"
        state, reason = self._ending.publish(record, lanes.run, lanes.outcome, ended)
        self._drop(record["id"])
        self._settle_lanes(record["id"], state == "succeeded")
        JobLog(_log, record["id"]).info("%s, %s", state, reason)

    def _cancel(self, record: dict[str, Any]) -> None:
        self._drop(record["id"])
        self._store.finish(record["id"], "cancelled")
        self._setbacks.tidy(record)
        JobLog(_log, record["id"]).info("cancelled")

    def _settle_lanes(self, job_id: str, is_complete: bool) -> None:
        """Settle the files of an ended job's lanes; an error is logged, and does not change how the job ended."""
        try:
            settle_lanes(self._settings.jobs / job_id, is_complete)
        except Exception:
            JobLog(_log, job_id).exception("some of what it left stays")

    def _drop(self, job_id: str) -> float | None:
        """End the run of a job; return the seconds that the job has trained, None if it has no run."""
        active = self._active.pop(job_id, None)
        run = active and active.lanes.run
        if active is None or run is None:
            return None
        active.lanes.close()
        return run.control["elapsed_seconds"]


def _hand_back(lanes: LaneRunner) -> None:
    with contextlib.suppress(Exception):  # the run has died, and was to end
        lanes.hand_back()


def main(data_dir: str | Path) -> int:
    """Body of the process. SIGTERM and SIGINT end it; running jobs go back to the queue."""
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
