"""Logs each job that has ended to an MLflow server, by a process of its own: MLflow takes seconds to load, and memory.

A server that does not answer is tried again later. What is due is on disk, so that a service that starts again goes on.
How the log of a job stands is on its record: `tracking` of its last transition.
"""

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.notifications.notifier import Schedule
from streamsvm.service.records.stamps import now, rfc3339
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.service.tracking.due import due_jobs, settle

_LOOK_SECONDS = 1.0
_SCHEDULE = Schedule()
_MOST_SECONDS = 600.0  # that a job's log may take
_PASSWORD = re.compile(r"(?<=//)[^/@\s]+@")  # of a URL
_log = logging.getLogger("streamsvm.tracker")
Run = Callable[[Settings, str], str]


def log_apart(settings: Settings, job_id: str) -> str:
    """Log a job in another process; returns the id of its run. Raises OSError, subprocess.SubprocessError."""
    command = [sys.executable, "-m", "streamsvm.service.tracking.log_job", str(settings.data_dir), job_id]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_MOST_SECONDS)
    return done.stdout.split()[-1]  # MLflow may print before


class Tracker:
    """`start`, then `stop`; in between it logs the jobs that are due, one at a time.

    run   logs a job and returns the id of its run
    look  seconds between two looks for jobs that have ended
    Raises ServiceError not_installed.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        run: Run = log_apart,
        schedule: Schedule = _SCHEDULE,
        clock: Callable[[], float] = time.monotonic,
        look: float = _LOOK_SECONDS,
    ) -> None:
        self._settings, self._store, self._run_one = settings, store, run
        self._schedule, self._clock, self._look = schedule, clock, look
        self._first: dict[str, float] = {}  # id -> when it was tried first
        self._next: dict[str, tuple[int, float]] = {}  # id -> failures, and when to try again
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        if self.is_needed and find_spec("mlflow") is None:
            hint = "pip install 'streamsvm[mlflow]', or unset STREAMSVM_MLFLOW_URI."
            raise ServiceError("not_installed", "STREAMSVM_MLFLOW_URI is set, and MLflow is not installed", hint)

    @property
    def is_needed(self) -> bool:
        """Whether the service logs jobs."""
        return bool(self._settings.mlflow_uri)

    def start(self) -> None:
        """Begin to log jobs."""
        self._thread.start()

    def stop(self) -> None:
        """Log no more jobs; the one under way is logged again after the next start, into the same run."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._look):
            try:
                self.step()
            except Exception:
                _log.exception("jobs that are due cannot be logged now")

    def step(self) -> None:
        """Log each job that is due and has ended, unless it is to be tried later."""
        for job_id in due_jobs(self._settings):
            if self._stopping.is_set():
                return
            if self._next.get(job_id, (0, 0.0))[1] <= self._clock() and self._has_ended(job_id):
                self._log_one(job_id)

    def _has_ended(self, job_id: str) -> bool:
        try:
            return not TRANSITIONS[self._store.job(job_id)["state"]]
        except ServiceError:  # it was deleted
            self._settle(job_id)
            return False

    def _log_one(self, job_id: str) -> None:
        first = self._first.setdefault(job_id, self._clock())
        try:
            run_id = self._run_one(self._settings, job_id)
        except (OSError, subprocess.SubprocessError) as error:
            self._failed(job_id, first, _reason(error))
        else:
            _log.info("job %s is logged to MLflow, run %s", job_id, run_id)
            self._settle(job_id, state="logged", run_id=run_id)

    def _failed(self, job_id: str, first: float, why: str) -> None:
        failures = self._next.get(job_id, (0, 0.0))[0] + 1
        again = self._clock() + self._schedule.pause(failures)
        if again > first + self._schedule.give_up:
            _log.error("job %s is not logged to MLflow: %s", job_id, why)
            self._settle(job_id, state="given_up", attempts=failures, failure=why)
            return
        _log.warning("job %s could not be logged to MLflow: %s", job_id, why)
        self._next[job_id] = failures, again
        next_at = rfc3339(datetime.now(UTC) + timedelta(seconds=again - self._clock()))
        self._tell(job_id, state="waiting", attempts=failures, failure=why, next_at=next_at)

    def _tell(self, job_id: str, **told: Any) -> None:
        """Put on record how the log of a job stands, as soon as the disk takes it."""
        self._store.later(lambda: self._store.note_tracking(job_id, told))

    def _settle(self, job_id: str, **told: Any) -> None:
        if told:
            self._tell(job_id, at=now(), **told)
        settle(self._settings, job_id)
        self._first.pop(job_id, None)
        self._next.pop(job_id, None)


def _reason(error: Exception) -> str:
    """The last line that the process has written, else the error; without the passwords of URLs."""
    lines = (getattr(error, "stderr", None) or "").strip().splitlines()
    return _PASSWORD.sub("", lines[-1] if lines else str(error))[:500]
