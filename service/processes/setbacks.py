"""What becomes of a job whose attempt came to a bad end: it is queued again, waits for room, or fails."""

import logging
import subprocess
import sys
import threading
import time
from typing import Any

from service.errors import ServiceError
from service.jobs.continuing import count_crashes, is_stuck, lost_seconds
from service.jobs.lane_files import newest_lane, settle_lanes
from service.processes.logs import JobLog
from service.processes.run import log_tail
from service.records.store import Store
from service.settings import Settings
from storage.checkpoint import newest_checkpoint
from storage.child import child_environment
from storage.errors import NO_ROOM, OutOfSpace, StorageError

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
FORGETTING = "service.cluster.forgetting"
_log = logging.getLogger("streamsvm.worker")


class Setbacks:
    """Of the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._pauses: dict[str, tuple[float, float]] = {}  # of jobs that found no room on a disk: (seconds, until when)
        self._queued: dict[str, dict[str, Any]] = {}  # jobs that have run before

    @property
    def pausing(self) -> list[str]:
        """Jobs that are to wait for a while."""
        now = time.monotonic()
        return [job_id for job_id, (_, until) in self._pauses.items() if now < until]

    def attend(self) -> None:
        """After jobs that were queued again and have been cancelled there, nothing of what they left stays."""
        queued = {record["id"]: record for record in self._store.jobs("queued") if record["started_at"]}
        for job_id in self._queued.keys() - queued.keys():
            if self._is_cancelled(job_id):
                self.tidy(self._queued[job_id])
        self._queued = queued

    def _is_cancelled(self, job_id: str) -> bool:
        try:
            return self._store.job(job_id)["state"] == "cancelled"
        except ServiceError:  # it was deleted, too
            return True

    def retry(self, record: dict[str, Any], error: ServiceError, trained: float | None) -> None:
        """Queue the job again, unless it has crashed too often without getting any further."""
        lane, directory = newest_lane(self._settings.jobs / record["id"])
        newest = newest_checkpoint(directory)
        crashes, pass_ = count_crashes(lane, newest, record), newest.about["pass"] if newest else 1
        if not is_stuck(crashes, pass_, record, self._settings.max_crashes):
            lost = None if trained is None else lost_seconds(newest, trained)
            because = {"reason": error.code, "lost_seconds": lost, "pass": pass_}
            self._store.requeue_job(record["id"], crashes, **because)
        else:
            times = f"{error.message}, again and again, and the job got no further"
            self._fail(record, {"code": "crash_loop", "message": times, "hint": error.hint})

    def fail_or_pause(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        """End a job that cannot run; for want of room it is queued, and goes on after a while. Others go before it."""
        if failure["code"] != OutOfSpace.code:
            self._fail(record, failure)
            return
        JobLog(_log, record["id"]).warning("paused: %s", failure["message"])
        self._store.requeue_job(record["id"], reason=failure["code"])
        before, _ = self._pauses.get(record["id"], (_SHORTEST_PAUSE_SECONDS, 0.0))
        pause, now = min(2 * before, _LONGEST_PAUSE_SECONDS), time.monotonic()
        # Those that were over long ago are of jobs that found room, or were cancelled.
        still = {job_id: each for job_id, each in self._pauses.items() if now < each[1] + _LONGEST_PAUSE_SECONDS}
        self._pauses = {**still, record["id"]: (pause, now + pause)}

    def _fail(self, record: dict[str, Any], failure: dict[str, Any]) -> None:
        tail = log_tail(self._settings.jobs / record["id"] / "log")
        self._store.finish_job(record["id"], "failed", failure={**failure, "log_tail": tail})
        self.tidy(record)
        JobLog(_log, record["id"]).error("failed: %s", failure["message"])

    def tidy(self, record: dict[str, Any]) -> None:
        """After a job that came to no good end."""
        settle_lanes(self._settings.jobs / record["id"], is_complete=False)
        if record["spec"].get("machines") is not None and self._settings.ray_address is not None:
            # Nobody waits for it.
            command = [sys.executable, "-m", FORGETTING, self._settings.ray_address, record["id"]]
            options = {"env": child_environment(), "check": False, "start_new_session": True}
            threading.Thread(target=subprocess.run, args=(command,), kwargs=options, daemon=True).start()


def describe(error: Exception) -> dict[str, Any]:
    """Code, message and hint, as a job's record has them."""
    if isinstance(error, ServiceError | StorageError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    code = "out_of_space" if isinstance(error, OSError) and error.errno in NO_ROOM else "io_error"
    # Not the whole text: it names files of this machine.
    return {"code": code, "message": getattr(error, "strerror", None) or type(error).__name__, "hint": ""}
