"""Work that is done beside requests, by a thread that lasts as long as there is some; writes that wait for a disk."""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger("streamsvm.background")
_PAUSES = 1.0, 30.0


class Backoff:
    """Pauses: the first of the `shortest` seconds, each further one twice as long, up to the `longest`."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest, self._pause = shortest, longest, shortest

    def next(self) -> float:
        """The seconds of the next pause."""
        pause, self._pause = self._pause, min(2 * self._pause, self._longest)
        return pause

    def reset(self) -> None:
        """Begin again with the shortest."""
        self._pause = self._shortest


class Background:
    """Calls `step` in its own thread after each `wake`. Errors are logged, and `step` is called again after a pause.

    step    does one thing and returns whether it did; it is called until there is nothing left
    pauses  see `Backoff`
    """

    def __init__(self, name: str, step: Callable[[], bool], pauses: tuple[float, float] = _PAUSES) -> None:
        self._name, self._step, self._backoff = name, step, Backoff(*pauses)
        self._lock = threading.Lock()
        self._has_work = False
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()

    def wake(self) -> None:
        """Report that there is work. Starts a thread if none runs."""
        with self._lock:
            self._has_work = True
            self._woken.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # there are too many threads
                    _log.exception("%s cannot be begun now", self._name)

    def is_there(self) -> bool:
        """Return whether work, if there is any, has a thread; a thread that has died is started again."""
        if self._is_missing():
            self.wake()
        return not self._is_missing()

    def _is_missing(self) -> bool:
        with self._lock:
            return self._has_work and (self._thread is None or not self._thread.is_alive())

    def _run(self) -> None:
        self._backoff.reset()
        while self._goes_on():
            try:
                while self._step():
                    self._backoff.reset()
            except Exception:
                _log.exception("%s: not done now, tried again", self._name)
                self._has_work = True
                self._woken.wait(self._backoff.next())

    def _goes_on(self) -> bool:
        """Return whether `wake` was called since the last call of this method."""
        with self._lock:
            is_wanted, self._has_work = self._has_work, False
            self._woken.clear()
            if not is_wanted:
                self._thread = None
            return is_wanted


class Later:
    """Makes writes at once or, if the disk refuses them, as soon as it takes them."""

    def __init__(self, pauses: tuple[float, float] = (1.0, 5.0)) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self.background = Background("writing-later", self._write_first, pauses)

    def __call__(self, write: Callable[[], object]) -> None:
        """Call `write` now, or later. If the process ends before, recovery at the next start makes up for the write."""
        try:
            write()
        except Exception:
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
