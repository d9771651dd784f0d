"""Keeps a worker process running beside the api process."""

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress

from service.processes.lock import last_sign
from service.processes.worker import REFUSED
from service.settings import Settings
from storage.child import child_environment

_PAUSE_SECONDS = 1.0
_SHUTDOWN_SECONDS = 10.0
_LOOK_SECONDS = 1.0
# More than a reader or a trainer may be silent: a worker may write gigabytes between two signs.
_STALLS = 5
_log = logging.getLogger("streamsvm.keeper")


class WorkerKeeper:
    """`start`, then `stop`; in between a worker that dies, or falls silent and is killed, is followed by another."""

    def __init__(self, settings: Settings) -> None:
        self._data_dir = settings.data_dir
        self._patience = _STALLS * settings.stall_seconds
        self._command = [sys.executable, "-m", "service.processes.worker", str(settings.data_dir)]
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen | None = None
        # The kernel kills the worker when the thread that started it ends: this one lasts as long as the process.
        self._thread = threading.Thread(target=self._keep, name="worker-keeper", daemon=True)

    def start(self) -> None:
        """Start the worker."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker, which hands its job back, and wait for it."""
        with self._lock:
            self._stopping.set()
            if self._child is not None:
                self._child.terminate()
        self._thread.join(_SHUTDOWN_SECONDS)
        if self._thread.is_alive() and self._child is not None:
            self._child.kill()
            self._thread.join()

    def _keep(self) -> None:
        while (child := self._spawn()) is not None:
            code = self._watch(child)
            if code == REFUSED:
                return
            if not self._stopping.wait(_PAUSE_SECONDS):
                _log.error("the worker ended with code %s: starting another", code)

    def _watch(self, child: subprocess.Popen) -> int:
        """Wait for its end, and bring that about if it gives no sign of life; its exit code."""
        sign, since = None, time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(_LOOK_SECONDS)
            # Another one, not a later one: the clock that signs are made by may step.
            if (found := last_sign(self._data_dir, "worker")) != sign:
                sign, since = found, time.monotonic()
            elif time.monotonic() - since > self._patience:
                _log.error("the worker fell silent")
                child.kill()

    def _spawn(self) -> subprocess.Popen | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self._child = subprocess.Popen(self._command, env=child_environment(), start_new_session=True)
            return self._child
