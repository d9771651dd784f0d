"""Decides what happens to a job whose attempt failed: it is queued again, waits for disk space, or fails."""

import errno
import logging
import sqlite3
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from streamsvm.service.errors import Crash, ServiceError
from streamsvm.service.jobs.lanes.continuing import count_crashes, is_stuck, lost_seconds
from streamsvm.service.jobs.lanes.lane_files import newest_lane, settle_lanes
from streamsvm.service.processes.launch import forget_run
from streamsvm.service.processes.logs import JobLog
from streamsvm.service.processes.run import log_tail
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import NO_ROOM, OutOfSpace, StorageError
from streamsvm.storage.run.checkpoint import Checkpoint, newest_checkpoint

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
INTERNAL = "internal"
_FORESEEN = (ServiceError, StorageError)
SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_STORE_BUSY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_log = logging.getLogger("streamsvm.worker")


class WorkerDied(Crash):
    """The worker ended while the job ran.

    times  crashes of the job since its last progress, this one included
    """

    code = "worker_died"

    def __init__(self, times: int) -> None:
        super().__init__(self.code, "the worker ended while the job ran")
        self.times = times


class Setbacks:
    """Handles the failures of the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._pauses: dict[str, tuple[float, float]] = {}  # id of a job that lacked something -> (seconds, end)
        self._queued: dict[str, dict[str, Any]] = {}  # jobs that have run before
        self._unsettled: dict[str, Callable[[], None]] = {}  # job id -> records a failure that could not be recorded

    @property
    def pausing(self) -> list[str]:
        """Ids of jobs that still have to wait before their next attempt."""
        now = time.monotonic()
        return [job_id for job_id, (_, until) in self._pauses.items() if now < until]

    def attend(self) -> None:
        """Try again to record failures that could not be recorded, and tidy up after jobs cancelled in the queue.

        A job that was queued again after a failure has files; once it is cancelled they are removed.
        """
        for job_id, settle in list(self._unsettled.items()):
            self._try(job_id, settle)
        queued = {record["id"]: record for record in self._store.queued_again()}
        for job_id in self._queued.keys() - queued.keys():
            if self._is_cancelled(job_id):
                self.tidy(self._queued[job_id])
        self._queued = queued

    def _is_cancelled(self, job_id: str) -> bool:
        try:
            return self._store.job(job_id)["state"] == "cancelled"
        except ServiceError:  # the job was deleted, too
            return True

    def settle(self, record: dict[str, Any], error: BaseException, trained: float | None) -> None:
        """Handle the failure of a running job, whose attempt ended with `error` after `trained` seconds; None: unknown.

        A Crash or an unexpected error is counted, and the job queued again until there are too many; other errors of
        this package fail the job, and a full disk makes it wait. What cannot be recorded now is recorded by `attend`.
        """
        if not _is_foreseen(error):
            _leave_trace(self._settings.jobs / record["id"] / "log", error)
            JobLog(_log, record["id"]).error("nobody foresaw this", exc_info=error)
        self._try(record["id"], lambda: self._settle(record, error, trained))

    def _try(self, job_id: str, settle: Callable[[], None]) -> None:
        self._unsettled.pop(job_id, None)
        try:
            settle()
        except ServiceError:  # the job is not running any more
            return
        except BaseException:
            JobLog(_log, job_id).exception("what became of it is to be written down later")
            self._unsettled[job_id] = settle

    def _settle(self, record: dict[str, Any], error: BaseException, trained: float | None) -> None:
        if isinstance(error, WorkerDied) and error.times > self._settings.max_crashes:
            self._give_up(record, error)  # without reading the job's files: that may be what kills the worker
        elif isinstance(error, Crash):
            self._retry(record, error, trained)
        elif _is_foreseen(error):
            self._fail_or_pause(record, describe(error))
        else:
            self._retry(record, _unforeseen(error), trained)
            if lacks(error):
                self._pause(record)

    def _retry(self, record: dict[str, Any], error: Crash, trained: float | None) -> None:
        """Queue the job again, unless it has crashed too often without progress."""
        lane, newest = self._newest(record)
        crashes, pass_ = count_crashes(lane, newest, record), newest.about["pass"] if newest else 1
        if is_stuck(crashes, pass_, record, self._settings.max_crashes):
            self._give_up(record, error)
            return
        lost = None if trained is None else lost_seconds(newest, trained)
        self._store.requeue(record["id"], crashes, reason=error.code, lost_seconds=lost, **{"pass": pass_})

    def _newest(self, record: dict[str, Any]) -> tuple[int, Checkpoint | None]:
        """Return the lane begun last, and its newest checkpoint; if they cannot be read, (0, None): no progress."""
        try:
            lane, directory = newest_lane(self._settings.jobs / record["id"])
            return lane, newest_checkpoint(directory)
        except Exception:
            JobLog(_log, record["id"]).exception("its checkpoints cannot be read")
            return 0, None

    def _give_up(self, record: dict[str, Any], error: Crash) -> None:
        times = f"{error.message}, again and again, and the job got no further"
        self._fail(record, {"code": "crash_loop", "message": times, "hint": error.hint})

    def _fail_or_pause(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        """Fail a job that cannot run. If the disk is full, queue the job for a while later; other jobs go before it."""
        if failure["code"] != OutOfSpace.code:
            self._fail(record, failure)
            return
        JobLog(_log, record["id"]).warning("paused: %s", failure["message"])
        self._store.requeue(record["id"], reason=failure["code"])
        self._pause(record)

    def _pause(self, record: dict[str, Any]) -> None:
        before, _ = self._pauses.get(record["id"], (_SHORTEST_PAUSE_SECONDS, 0.0))
        pause, now = min(2 * before, _LONGEST_PAUSE_SECONDS), time.monotonic()
        # Pauses that ended long ago are dropped: their jobs have run since, or were cancelled.
        still = {job_id: each for job_id, each in self._pauses.items() if now < each[1] + _LONGEST_PAUSE_SECONDS}
        self._pauses = {**still, record["id"]: (pause, now + pause)}

    def _fail(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        tail = ""
        with suppress(Exception):
            tail = log_tail(self._settings.jobs / record["id"] / "log")
        self._store.finish(record["id"], "failed", failure={**failure, "log_tail": tail})
        JobLog(_log, record["id"]).error("failed: %s", failure["message"])
        self.tidy(record)

    def tidy(self, record: dict[str, Any]) -> None:
        """Remove the files of a job that failed or was cancelled. An error is logged, and does not change a record."""
        try:
            self._tidy(record)
        except Exception:
            JobLog(_log, record["id"]).exception("some of what it left stays")

    def _tidy(self, record: dict[str, Any]) -> None:
        settle_lanes(self._settings.jobs / record["id"], is_complete=False)
        forget_run(record, self._settings)


def describe(error: BaseException) -> dict[str, Any]:
    """Return code, message and hint of an error, as a job's record has them."""
    if isinstance(error, ServiceError | StorageError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    code = OutOfSpace.code if is_full(error) else "io_error" if isinstance(error, OSError) else INTERNAL
    # The whole text would show names of files on this machine.
    return {"code": code, "message": getattr(error, "strerror", None) or type(error).__name__, "hint": ""}


def is_full(error: BaseException) -> bool:
    """Return whether the error says that a disk is full, by the system's code or by SQLite's."""
    return getattr(error, "errno", None) in NO_ROOM or _store_code(error) == sqlite3.SQLITE_FULL


def _store_code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_foreseen(error: BaseException) -> bool:
    """Return whether the error is one of the package's own, or says in any form that the disk is full."""
    return isinstance(error, _FORESEEN) or is_full(error)


def lacks(error: BaseException) -> bool:
    """Return whether the machine lacks something that it may have later: descriptors, processes, memory, locks."""
    return getattr(error, "errno", None) in SCARCE or _store_code(error) in _STORE_BUSY


def _unforeseen(error: BaseException) -> Crash:
    """Return a Crash for an unexpected error, without the error's full text, which may name files of this machine."""
    told = describe(error)
    return Crash(told["code"], f"the worker met an error: {told['message']}", "The end of the job's log says where.")


def _leave_trace(log: Path, error: BaseException) -> None:
    """Write the traceback into the job's log."""
    with suppress(OSError):
        log.parent.mkdir(exist_ok=True)
        with log.open("a") as file:
            file.writelines(traceback.format_exception(error))
