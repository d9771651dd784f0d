"""The worker's second lane: predictions of files run beside jobs, one at a time, each in a process of its own.

A prediction that crashed is queued again and goes on with the pieces that it has, until it has crashed too often
without a new one.
"""

import json
import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.errors import ServiceError
from streamsvm.service.predictions.destinations import remove_unfinished
from streamsvm.service.predictions.process import ASKED, FAILED, PIECES, RESULT
from streamsvm.service.predictions.spec import destination_of
from streamsvm.service.processes.fork_server import Forked, fork
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.resources import free_memory, usable_cores
from streamsvm.storage.run.failure import told

_PROCESS = "streamsvm.service.predictions.process"
_LIBRARIES_BYTES, _BYTES_A_THREAD = 200 << 20, 96 << 20
_log = logging.getLogger("streamsvm.predictions")


class _Active(NamedTuple):
    """The running prediction: its record and its process."""

    record: dict[str, Any]
    child: Forked


class PredictionLane:
    """`recover` once, then `step` at each look; `shutdown` hands the running prediction back."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._active: _Active | None = None
        self._has_complained = False

    def recover(self) -> None:
        """Queue the predictions of a worker that died again, and remove what ended ones left."""
        for record in self._store.predictions("running"):
            self._retry(record, "its worker died")
        waiting = {record["id"] for record in self._store.predictions("queued")}
        if self._settings.predictions.is_dir():
            for directory in self._settings.predictions.iterdir():
                if directory.name not in waiting:
                    shutil.rmtree(directory, ignore_errors=True)

    def step(self, is_training: bool) -> None:
        """Start the next prediction if none runs, else look after the one that does.

        is_training  whether a job runs: then a prediction starts only if its memory fits beside
        """
        try:
            if self._active is None:
                self._begin(is_training)
            else:
                self._attend(self._active)
            self._has_complained = False
        except Exception:
            # The lane must not end the worker, nor its jobs; what cannot be written down now is tried again.
            if not self._has_complained:
                _log.exception("predictions: not done now, tried again")
            self._has_complained = True

    def shutdown(self) -> None:
        """End the running prediction's process; the next worker goes on with it."""
        active, self._active = self._active, None
        if active is not None:
            _end(active.child)
            self._store.requeue_prediction(active.record["id"])

    def _begin(self, is_training: bool) -> None:
        if is_training and free_memory() < self._needed():
            return
        record = self._store.claim_prediction()
        if record is None:
            return
        directory = self._directory(record)
        try:
            make_directory(directory)
            for name in (RESULT, "failure.json"):
                (directory / name).unlink(missing_ok=True)
            asked = {"spec": record["spec"], "model_id": record["model_id"]}
            (directory / ASKED).write_text(json.dumps(asked))
            with (directory / "log").open("ab") as log, Path(os.devnull).open("r+b") as nothing:
                files = nothing.fileno(), nothing.fileno(), log.fileno()
                child = fork([_PROCESS, str(self._settings.data_dir), record["id"]], files)
        except Exception as error:
            self._retry(record, f"it could not be started: {getattr(error, 'strerror', None) or type(error).__name__}")
            return
        self._active = _Active(record, child)
        _log.info("%s: attempt %s started", record["id"], record["attempt"])

    def _attend(self, active: _Active) -> None:
        record, code = active.record, active.child.poll()
        if code is None:
            if self._is_cancelled(record):
                _end(active.child)
                self._finish(record, "cancelled")
            return
        failure = None if code == 0 else told(self._directory(record), code)
        if code == 0:
            result = json.loads((self._directory(record) / RESULT).read_text())
            self._finish(record, "succeeded", result=result)
        elif code == FAILED and failure is not None:
            self._finish(record, "failed", failure=failure)
        else:
            _end(active.child)
            self._retry(record, f"its process ended with {code}")
            self._active = None

    def _is_cancelled(self, record: dict[str, Any]) -> bool:
        try:
            return self._store.prediction(record["id"])["requested"] == "cancel"
        except sqlite3.Error:  # asked again at the next look
            return False

    def _finish(self, record: dict[str, Any], state: str, **more: dict[str, Any]) -> None:
        """Record the end, then remove what is left; if it cannot be recorded, this is tried again."""
        self._store.finish_prediction(record["id"], state, **more)
        if self._active is not None:
            _end(self._active.child)
        self._active = None
        self._tidy(record)
        _log.info("%s: %s", record["id"], state)

    def _retry(self, record: dict[str, Any], why: str) -> None:
        """Queue a prediction again, unless it has crashed too often without a new piece."""
        pieces = sum(1 for _ in (self._directory(record) / PIECES).glob("*.piece"))
        crashes = record["crashes"] + 1 if pieces <= record["crash_pieces"] else 1
        _log.warning("%s: %s, crash %s", record["id"], why, crashes)
        if crashes <= self._settings.max_crashes:
            self._store.requeue_prediction(record["id"], crashes, max(pieces, record["crash_pieces"]))
            if self._store.prediction(record["id"])["state"] == "cancelled":
                self._tidy(record)
            return
        message = f"{why}, again and again, and the prediction got no further"
        failure = {"code": "crash_loop", "message": message, "hint": "The log of the service says more."}
        self._store.finish_prediction(record["id"], "failed", failure=failure)
        self._tidy(record)

    def _tidy(self, record: dict[str, Any]) -> None:
        shutil.rmtree(self._directory(record), ignore_errors=True)
        try:
            destination = destination_of(self._settings, record["spec"]["destination"])
        except ServiceError:
            return
        remove_unfinished(destination, record["id"])

    def _directory(self, record: dict[str, Any]) -> Path:
        return self._settings.predictions / record["id"]

    def _needed(self) -> int:
        """Bytes that a prediction may need beside its model."""
        return _LIBRARIES_BYTES + usable_cores() * _BYTES_A_THREAD


def _end(child: Forked) -> None:
    with child:
        child.kill()
