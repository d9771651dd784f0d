"""Work that is done beside requests, by a thread that lasts as long as there is some."""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger("streamsvm.background")


class Background:
    """`wake` it when there is something to do. What goes wrong is logged, and tried again after a while.

    step    does one thing and returns whether it did; it is called until there is nothing left
    pauses  seconds after a first error, and at most, for they double
    """

    def __init__(self, name: str, step: Callable[[], bool], pauses: tuple[float, float] = (1.0, 30.0)) -> None:
        self._name = name
        self._step = step
        self._pauses = pauses
        self._lock = threading.Lock()
        self._has_work = False
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()

    def wake(self) -> None:
        """Say that there is something to do. Begins a thread if there is none, or the last one has died."""
        with self._lock:
            self._has_work = True
            self._woken.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # there are too many
                    _log.exception("%s cannot be begun now", self._name)

    def is_there(self) -> bool:
        """Whether the thread runs; a thread that has died is started again."""
        if self._is_missing():
            self.wake()
        return not self._is_missing()

    def _is_missing(self) -> bool:
        with self._lock:
            return self._has_work and (self._thread is None or not self._thread.is_alive())

    def _run(self) -> None:
        pause, longest = self._pauses
        while self._goes_on():
            try:
                while self._step():
                    pause = self._pauses[0]
            except Exception:
                _log.exception("%s: not done now, tried again", self._name)
                self._has_work = True
                self._woken.wait(pause)
                pause = min(2 * pause, longest)

    def _goes_on(self) -> bool:
        """Whether somebody has woken it since it last began to look."""
        with self._lock:
            is_wanted, self._has_work = self._has_work, False
            self._woken.clear()
            if not is_wanted:
                self._thread = None
            return is_wanted


class Later:
    """Writes that are done now or, if the disk does not take them, as soon as it does."""

    def __init__(self, pauses: tuple[float, float] = (1.0, 30.0)) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self.background = Background("writing-later", self._write_first, pauses)

    def __call__(self, write: Callable[[], object]) -> None:
        """Do it now, or later. What is not done when the process ends is up to the next one's recovery."""
        try:
            write()
        except (sqlite3.Error, OSError):
            _log.warning("what cannot be written down now is later", exc_info=True)
            self._waiting.append(write)
            self.background.wake()

    def _write_first(self) -> bool:
        if not self._waiting:
            return False
        try:
            self._waiting[0]()
        except (sqlite3.Error, OSError):
            raise
        except Exception:
            _log.exception("this is not written down")
        self._waiting.popleft()
        return True
