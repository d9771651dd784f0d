"""Runs predictions of files in the worker, beside jobs: one at a time, each in its own process.

A prediction that crashed, or was killed because its heartbeat stopped, is queued again and goes on with the pieces that
it has made, until it has crashed too often without a new piece. Files of ended predictions are removed.
"""

import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.fork_server import Forked, fork
from streamsvm.service.jobs.progress.progress import read_json
from streamsvm.service.jobs.progress.states import PREDICTION_STATES
from streamsvm.service.models.registry import model_bytes
from streamsvm.service.predictions.destinations import remove_unfinished
from streamsvm.service.predictions.process import ASKED, FAILED, PIECES, RESULT, SIGNS
from streamsvm.service.predictions.signs import silence_of
from streamsvm.service.predictions.spec import destination_of
from streamsvm.service.processes.retry_policy import is_full, lacks
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import LastRead
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import OutOfSpace
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.resources import free_memory, usable_cores
from streamsvm.storage.run.failure import told

_PROCESS = "streamsvm.service.predictions.process"
_LIBRARIES_BYTES, _BYTES_A_THREAD = 200 << 20, 96 << 20
_MODEL_COPIES = 2  # in memory while it is read
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_log = logging.getLogger("streamsvm.predictions")


class _RunningPrediction(NamedTuple):
    """The running prediction.

    began         time at which its process began, by the monotonic clock
    memory_bytes  bytes of memory that the process may need
    """

    record: dict[str, Any]
    child: Forked
    began: float
    memory_bytes: int


class PredictionLane:
    """The queue of predictions: call `recover` once, then `step` repeatedly; `shutdown` requeues the running one."""

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        self._active: _RunningPrediction | None = None
        self._next = LastRead(store, lambda: store.waiting(1, "prediction"))
        self._cancelled = LastRead(store, lambda: store.requests("prediction"))
        self._unsettled: Callable[[], None] | None = None  # a change of the records that has failed so far
        self._pause, self._paused_until = _SHORTEST_PAUSE_SECONDS, -float("inf")
        self._leftovers = _Leftovers(settings, store)
        self._sweep = LastRead(store, self._leftovers.sweep)
        self._has_complained = False

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the running prediction may need; 0 if none runs."""
        return 0 if self._active is None else self._active.memory_bytes

    def recover(self) -> None:
        """Queue predictions again that ran when the last worker died, and remove files of ended predictions."""
        for record in self._store.predictions("running"):
            self._settle(partial(self._retry, record, "its worker died"))
        self._leftovers.sweep()

    def step(self, is_training: bool) -> None:
        """Start the next prediction if none runs, else check the running one.

        is_training  whether a job runs: then a prediction starts only if there is free memory for it
        """
        try:
            self._step(is_training)
            self._has_complained = False
        except Exception:
            # The lane must not end the worker, nor its jobs; what cannot be written down now is tried again.
            if not self._has_complained:
                _log.exception("predictions: not done now, tried again")
            self._has_complained = True

    def shutdown(self) -> None:
        """End the running prediction's process, and queue the prediction again for the next worker."""
        active = self._end()
        if active is not None:
            self._store.requeue(active.record["id"], {"crashes": 0, "crash_pieces": 0}, "prediction")
        elif self._unsettled is not None:
            self._settle(self._unsettled)

    def _step(self, is_training: bool) -> None:
        if self._unsettled is not None:
            self._settle(self._unsettled)
        elif self._active is not None:
            self._attend(self._active)
        elif self._clock() >= self._paused_until:
            self._sweep()
            self._begin(is_training)

    def _settle(self, change: Callable[[], None]) -> None:
        """Record a change of a prediction's state; if that fails, the next step tries it again first."""
        self._unsettled = change
        with suppress(ServiceError):  # it is not running any more: this was recorded before
            change()
        self._unsettled = None

    def _begin(self, is_training: bool) -> None:
        waiting = self._next()
        if not waiting:
            return
        needed = self._needed(waiting[0]["model_id"])
        if is_training and free_memory() < needed:
            return
        record = self._store.claim(waiting[0]["id"], "prediction")
        if record is None:
            return
        began = time.monotonic()
        try:
            child = self._start(record)
        except Exception as error:
            self._settle(partial(self._put_back, record, error))
            return
        self._active, self._pause = _RunningPrediction(record, child, began, needed), _SHORTEST_PAUSE_SECONDS
        _log.info("%s: attempt %s started", record["id"], record["attempt"])

    def _start(self, record: dict[str, Any]) -> Forked:
        """Fork the process of a prediction. Raises OSError."""
        directory = self._directory(record["id"])
        make_directory(directory)
        for name in (RESULT, "failure.json", SIGNS):
            (directory / name).unlink(missing_ok=True)
        asked = {name: record[name] for name in ("spec", "model_id", "dataset_id", "attempt")}
        (directory / ASKED).write_text(json.dumps(asked))
        with (directory / "log").open("ab") as log, Path(os.devnull).open("r+b") as nothing:
            files = nothing.fileno(), nothing.fileno(), log.fileno()
            return fork([_PROCESS, str(self._settings.data_dir), record["id"]], files)

    def _put_back(self, record: dict[str, Any], error: Exception) -> None:
        """Queue a prediction whose process could not be started; if disk, memory or processes lack, pause the queue."""
        why = f"it could not be started: {getattr(error, 'strerror', None) or type(error).__name__}"
        if not (is_full(error) or lacks(error)):
            self._retry(record, why)
            return
        _log.warning("%s: %s, tried again after %.0f seconds", record["id"], why, self._pause)
        self._store.requeue(record["id"], kind="prediction")
        self._paused_until = self._clock() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _attend(self, active: _RunningPrediction) -> None:
        record, code = active.record, active.child.poll()
        if code is not None:
            self._end()
            self._settle(partial(self._conclude, record, code))
        elif self._is_cancelled(record):
            self._end()
            self._settle(partial(self._finish, record, "cancelled"))
        elif (silence := self._silence(active)) > self._settings.stall_seconds:
            self._end()
            self._settle(partial(self._retry, record, f"it gave no sign of life for {silence:.0f} seconds"))

    def _end(self) -> _RunningPrediction | None:
        """End the process of the running prediction; return that prediction, None if none runs."""
        active, self._active = self._active, None
        if active is not None:
            with active.child as child:
                child.kill()
        return active

    def _conclude(self, record: dict[str, Any], code: int) -> None:
        """Record the outcome of a process that ended with this exit code; without result or failure, it crashed."""
        directory = self._directory(record["id"])
        result = _read_object(directory / RESULT) if code == 0 else None
        failure = told(directory, code) if code in (FAILED, OutOfSpace.exit_code) else None
        if result is not None:
            self._finish(record, "succeeded", result=result)
        elif failure is not None:
            self._finish(record, "failed", failure=failure)
        else:
            self._retry(record, f"its process ended with {code}")

    def _is_cancelled(self, record: dict[str, Any]) -> bool:
        try:
            return record["id"] in self._cancelled()
        except sqlite3.Error:  # asked again at the next look
            return False

    def _finish(self, record: dict[str, Any], state: str, **more: dict[str, Any]) -> None:
        """Record the prediction's end, then remove its pieces and unfinished files."""
        self._store.finish(record["id"], state, kind="prediction", **more)
        self._leftovers.tidy(record["id"], record["spec"])
        _log.info("%s: %s", record["id"], state)

    def _retry(self, record: dict[str, Any], why: str) -> None:
        """Queue a prediction again, unless it has crashed too often without a new piece."""
        pieces = sum(1 for _ in (self._directory(record["id"]) / PIECES).glob("*.piece"))
        crashes = record["crashes"] + 1 if pieces <= record["crash_pieces"] else 1
        _log.warning("%s: %s, crash %s", record["id"], why, crashes)
        if crashes <= self._settings.max_crashes:
            self._store.requeue(
                record["id"], {"crashes": crashes, "crash_pieces": max(pieces, record["crash_pieces"])}, "prediction"
            )
            return
        message = f"{why}, again and again, and the prediction got no further"
        failure = {"code": "crash_loop", "message": message, "hint": "The log of the service says more."}
        self._finish(record, "failed", failure=failure)

    def _directory(self, prediction_id: str) -> Path:
        return self._settings.predictions / prediction_id

    def _silence(self, active: _RunningPrediction) -> float:
        return silence_of(self._directory(active.record["id"]) / SIGNS, active.began)

    def _needed(self, model_id: str) -> int:
        """Return the bytes of memory that a prediction with this model may need."""
        model = _MODEL_COPIES * model_bytes(self._settings, model_id)
        return _LIBRARIES_BYTES + usable_cores() * _BYTES_A_THREAD + model


class _Leftovers:
    """The directories of the predictions of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._swept: set[str] = set()  # names of directories; one that cannot be removed is tried once

    def sweep(self) -> None:
        """Remove files of ended predictions, such as one that was cancelled while it waited for another attempt."""
        if not self._settings.predictions.is_dir():
            return
        for directory in self._settings.predictions.iterdir():
            if directory.name in self._swept:
                continue
            record = self._known(directory.name)
            if record is None or not PREDICTION_STATES.get(record["state"], ()):
                spec = record["spec"] if record else (_read_object(directory / ASKED) or {}).get("spec")
                self.tidy(directory.name, spec)
                self._swept.add(directory.name)

    def tidy(self, prediction_id: str, spec: Any) -> None:
        """Remove a prediction's pieces and unfinished destination; an error here does not change its outcome."""
        try:
            remove_unfinished(destination_of(self._settings, spec["destination"]), prediction_id)
        except Exception as error:
            _log.warning("%s: its destination is not looked at: %s", prediction_id, error or type(error).__name__)
        shutil.rmtree(self._settings.predictions / prediction_id, ignore_errors=True)

    def _known(self, prediction_id: str) -> dict[str, Any] | None:
        try:
            return self._store.prediction(prediction_id)
        except ServiceError:
            return None


def _read_object(path: Path) -> dict[str, Any] | None:
    """Read the object in a JSON file; return None without file or object. Raises OSError if the file is unreadable."""
    try:
        found = read_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
