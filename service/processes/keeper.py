"""Keeps a worker process running beside the api process: forked, see fork_server.py."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from streamsvm.service.forks.fork_server import Forked, fork
from streamsvm.service.processes.background import Backoff
from streamsvm.service.processes.health import last_sign, worker_is_there
from streamsvm.service.processes.worker import REFUSED
from streamsvm.service.settings import Settings

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
_SHUTDOWN_SECONDS = 10.0
_LOOK_SECONDS = 1.0
# A worker may be silent for this many stall_seconds: it may write gigabytes between two signs of life.
_STALLS = 5
_log = logging.getLogger("streamsvm.keeper")
Child = subprocess.Popen[bytes] | Forked
Start = Callable[[Sequence[str]], Child]


class WorkerKeeper:
    """Keeps a worker running between `start` and `stop`: starts another if one ends, or falls silent and is killed.

    start   function that starts a module, given with its arguments, as a process
    pause   seconds before the next worker is started; see `Backoff`: doubled while no worker gives a sign of life
    look    seconds between two looks for a sign of life
    """

    def __init__(
        self,
        settings: Settings,
        start: Start | None = None,
        pause: float = _PAUSE_SECONDS,
        look: float = _LOOK_SECONDS,
    ) -> None:
        self._start = start or _fork
        self._backoff, self._look = Backoff(pause, _LONGEST_PAUSE_SECONDS), look
        self._trouble, self._has_signed = "", False
        self._data_dir = settings.data_dir
        self._patience = _STALLS * settings.stall_seconds
        self._command = "streamsvm.service.processes.worker", str(settings.data_dir)
        self._stopping = threading.Event()
        self._ends_by = 0.0
        self._lock = threading.Lock()
        self._child: Child | None = None
        # A child process dies with the thread that started it. This thread lasts as long as the process.
        self._thread = threading.Thread(target=self._keep, name="worker-keeper", daemon=True)

    @property
    def trouble(self) -> str:
        """Why no worker attends to the jobs; empty if a worker does, or is just starting."""
        if self._stopping.is_set() or self._thread.is_alive() or not self._thread.ident:
            return self._trouble
        return "nobody keeps a worker running"

    def start(self) -> None:
        """Start the worker."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask the worker to hand its jobs back and end; `stop` waits for that."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
            self._ends_by = time.monotonic() + _SHUTDOWN_SECONDS
            if self._child is not None:
                self._child.terminate()

    def stop(self) -> None:
        """Ask the worker to hand its jobs back and end, and wait for it; kill it if it takes too long."""
        self.ask_to_stop()
        self._thread.join(max(0.0, self._ends_by - time.monotonic()))
        if self._thread.is_alive() and self._child is not None:
            self._child.kill()
            self._thread.join()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._has_signed = False
            try:
                ended = self._one_worker()
            except Exception as error:
                # This thread has to go on after any error: nothing else starts a worker.
                ended = f"no worker can be started: {getattr(error, 'strerror', None) or error!r}"
            # A worker that gave signs of life is followed by another without a longer pause.
            if self._has_signed:
                self._backoff.reset()
            self._trouble = "" if self._has_signed else ended
            if not self._stopping.wait(self._backoff.next()):
                _log.error("%s: starting another", ended)

    def _one_worker(self) -> str:
        """Start a worker and wait for its end; return what went wrong."""
        with self._lock:
            if self._stopping.is_set():
                return ""
            self._child = child = self._start(self._command)
        with child:
            code = self._watch(child)
        if code != REFUSED:
            return f"the worker ended with code {code}"
        # A worker that this keeper did not start has the data directory. Once that is gone, another is to be started.
        while worker_is_there(self._data_dir) and not self._stopping.wait(self._look):
            self._note_sign()
        return "the worker that had the data directory is gone"

    def _watch(self, child: Child) -> int:
        """Wait until the worker ends, and kill it if it gives no sign of life; return its exit code."""
        sign, since = last_sign(self._data_dir, "worker"), time.monotonic()
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return child.wait(self._look)
                # Any other time of a sign counts, not only a later time: the clock may be set back.
                if (found := last_sign(self._data_dir, "worker")) != sign:
                    sign, since = found, time.monotonic()
                    self._note_sign()
                elif time.monotonic() - since > self._patience:
                    _log.error("the worker fell silent")
                    child.kill()
        except BaseException:
            child.kill()
            child.wait()
            raise

    def _note_sign(self) -> None:
        self._has_signed, self._trouble = True, ""


def _fork(command: Sequence[str]) -> Forked:
    with Path(os.devnull).open("rb") as nothing:
        return fork(command, (nothing.fileno(), sys.stdout.fileno(), sys.stderr.fileno()))
