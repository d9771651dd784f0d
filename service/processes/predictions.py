"""The predictions of files of the worker: they run beside jobs, one at a time, each in a process of its own.

A prediction that goes on after a crash keeps the pieces that it has.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.errors import DIED, STALLED, Crash, ServiceError, is_full
from streamsvm.service.forks.fork_server import Forked, fork
from streamsvm.service.jobs.progress.states import PREDICTION_STATES
from streamsvm.service.models.registry import model_bytes
from streamsvm.service.predictions.engine import silence_of
from streamsvm.service.predictions.process import ASKED, FAILED, PIECES, RESULT, SIGNS
from streamsvm.service.predictions.request import remove_unfinished
from streamsvm.service.predictions.spec import destination_of, read_object
from streamsvm.service.processes.work import Needs, Work, lacks
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import OutOfSpace
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.machine.resources import free_memory, usable_cores
from streamsvm.storage.run.failure import told

_PROCESS = "streamsvm.service.predictions.process"
_LIBRARIES_BYTES, _BYTES_A_THREAD = 200 << 20, 96 << 20
_MODEL_COPIES = 2  # in memory while it is read
_HINT = "The log of the service says more."


class _RunningPrediction(NamedTuple):
    """The running prediction; `began`: when its process did, by the monotonic clock."""

    record: dict[str, Any]
    needs: Needs
    child: Forked
    began: float

    def end(self) -> None:
        """End its process."""
        with self.child as child:
            child.kill()


class PredictionWork(Work):
    """The predictions of files of a data directory."""

    kind, reached, is_vital = "prediction", "crash_pieces", False
    died = Crash("worker_died", "its worker died", _HINT)

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, store, settings.predictions, 1, clock)

    def _next(self, waiting: list[dict[str, Any]], beside: Collection[Needs]) -> str | None:
        """The oldest, if no job runs or its memory fits beside."""
        if not waiting or (beside and free_memory() < self._memory_bytes(waiting[0]["model_id"])):
            return None
        return waiting[0]["id"]

    def _memory_bytes(self, model_id: str) -> int:
        """Return the bytes of memory that a prediction with this model may need."""
        model = _MODEL_COPIES * model_bytes(self._settings, model_id)
        return _LIBRARIES_BYTES + usable_cores() * _BYTES_A_THREAD + model

    def _begin(self, record: dict[str, Any]) -> _RunningPrediction:
        began = time.monotonic()
        try:
            child = self._start(record, self._directory(record))
        except Exception as error:
            why = f"it could not be started: {getattr(error, 'strerror', None) or type(error).__name__}"
            raise (OutOfSpace(why) if is_full(error) or lacks(error) else Crash(DIED, why, _HINT)) from error
        self._told(record).info("attempt %s started", record["attempt"])
        return _RunningPrediction(record, Needs(self._memory_bytes(record["model_id"])), child, began)

    def _start(self, record: dict[str, Any], directory: Path) -> Forked:
        """Fork the process of a prediction. Raises OSError."""
        make_directory(directory)
        for name in (RESULT, "failure.json", SIGNS):
            (directory / name).unlink(missing_ok=True)
        asked = {name: record[name] for name in ("spec", "model_id", "dataset_id", "attempt")}
        (directory / ASKED).write_text(json.dumps(asked))
        with (directory / "log").open("ab") as log, Path(os.devnull).open("r+b") as nothing:
            files = nothing.fileno(), nothing.fileno(), log.fileno()
            return fork([_PROCESS, str(self._settings.data_dir), record["id"]], files)

    def _watch(self, running: _RunningPrediction) -> None:
        record, code = running.record, running.child.poll()
        silence = silence_of(self._directory(record) / SIGNS, running.began)
        if code is not None:
            self._drop(record["id"])
            self._store.later(partial(self._conclude, record, code))
        elif self._requested(record) == "cancel":
            self._cancel(record)
        elif silence > self._settings.stall_seconds:
            raise Crash(STALLED, f"it gave no sign of life for {silence:.0f} seconds", _HINT)

    def _conclude(self, record: dict[str, Any], code: int) -> None:
        """Record the outcome of a process that ended with this exit code; without result or failure, it crashed."""
        directory = self._directory(record)
        result = read_object(directory / RESULT) if code == 0 else None
        failure = told(directory, code) if code in (FAILED, OutOfSpace.exit_code) else None
        if result is not None:
            self._end(record, "succeeded", result=result)
        elif failure is not None:
            self._fail(record, failure)
        else:
            self._retry(record, Crash(DIED, f"its process ended with {code}", _HINT))

    def _how_far(self, record: dict[str, Any], _trained: float | None) -> tuple[int, dict[str, Any]]:
        """How many pieces it has."""
        return sum(1 for _ in (self._directory(record) / PIECES).glob("*.piece")), {}

    def _tidy(self, record: dict[str, Any]) -> None:
        """Remove pieces, and the unfinished destination."""
        try:
            remove_unfinished(destination_of(self._settings, record["spec"]["destination"]), record["id"])
        finally:
            shutil.rmtree(self._directory(record), ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what predictions that have ended left."""
        root = self._settings.predictions
        for directory in root.iterdir() if root.is_dir() else ():
            try:
                record = self._store.job(directory.name, self.kind)
            except ServiceError:
                asked = read_object(directory / ASKED) or {}
                record = {"id": directory.name, "state": "cancelled", "spec": asked.get("spec")}
            if not PREDICTION_STATES.get(record["state"]):
                with self._tidying(record):
                    self._tidy(record)
