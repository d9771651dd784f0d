"""Runs reader and trainer in one process, in turn: for data so small that starting processes would take longest.

No threads, no waiting; the files and the mathematics are those of two processes.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsvm.reader.stream.process import Reader
from streamsvm.service.errors import refusing
from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.storage.errors import StorageError
from streamsvm.storage.rows.cache import CacheReader
from streamsvm.trainer.process import Trainer
from streamsvm.trainer.shared_state import SharedState

_POLL_SECONDS = 0.1


class Turns(SharedState):
    """Lets the reader take one step whenever the trainer waits for it, or asks whether it has committed a step."""

    def __init__(self, turn: Callable[[], object], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, wait=lambda _since: turn())  # type: ignore[misc]
        self._turn = turn

    def has_committed(self, number: int) -> bool:
        self._turn()
        return super().has_committed(number)


class InlineRun(Run):
    """A run in this process; `poll` trains for a tenth of a second, or a pass if longer."""

    pause_seconds = 0.0

    def __init__(self, directory: Path, job_dir: Path) -> None:
        super().__init__(directory, job_dir)
        self._reader: Reader | None = None
        self._cache: CacheReader | None = None
        self._trainer: Trainer | None = None

    def start(self) -> None:
        """Let the reader fill the cache as far as it can, then make the trainer."""
        with refusing(StorageError):
            self._reader = Reader(self.directory)
            while self._reader.step():
                pass
            self._cache = self._reader.cache_reader()
            self._trainer = Trainer(self.directory, self._cache, self._make_shared)

    def poll(self) -> bool:
        """Train for a while. Returns whether training has ended and the certificate is made."""
        assert self._trainer is not None, "start() comes first"
        end = time.monotonic() + _POLL_SECONDS
        with refusing(StorageError), self._history.open("a") as history:
            while self._trainer.stop_reason is None:
                if (told := self._trainer.step()) is not None:
                    history.write(json.dumps(told) + "\n")
                if time.monotonic() >= end:
                    return False
            self._trainer.shutdown()
            history.write(json.dumps({"result": self._trainer.results()}) + "\n")
        return True

    def close(self) -> None:
        """Close the cache and the reader's files."""
        for part in (self._cache and self._cache.close, self._reader and self._reader.shutdown):
            if part:
                part()
        self._cache = self._reader = None

    def _make_shared(self, *args: Any) -> SharedState:
        assert self._reader is not None
        return Turns(self._reader.step, *args)
