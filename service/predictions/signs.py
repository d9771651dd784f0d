"""Signs of life of a prediction's process, in a file: the worker kills a process that gives none for long."""

import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event

_EVERY_SECONDS = 0.5
_MOMENT = struct.Struct("<d")  # by the monotonic clock, which all processes of the machine share


class SignsOfLife:
    """Gives signs; any thread may."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = 0.0
        self.give()

    def give(self, silence: float = 0.0) -> None:
        """Say that the work goes on; `silence` is how many seconds it may now take without a sign."""
        now = time.monotonic()
        if now < self._next and not silence:
            return
        self._next = now + _EVERY_SECONDS
        with suppress(OSError):  # the next sign may be written
            os.pwrite(self._file, _MOMENT.pack(now + silence), 0)


class Wanted(Event):
    """An event that long loops look at, see `wanted_until`: set, it ends them. Each look is a sign of life."""

    def __init__(self, sign: Callable[[], None]) -> None:
        super().__init__()
        self._sign = sign

    def is_set(self) -> bool:
        """Whether the work is to end."""
        self._sign()
        return super().is_set()


def silence_of(path: Path, since: float) -> float:
    """Seconds without a sign in this file, at most those since the moment `since`; below 0 if silence is expected."""
    last = since
    with suppress(OSError, struct.error):
        last = max(since, *_MOMENT.unpack(path.read_bytes()))
    return time.monotonic() - last
