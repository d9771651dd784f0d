"""The heartbeat of a prediction's process, in a file: the worker kills a process whose heartbeat stops for long."""

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
    """Writes heartbeats to a file; any thread may call `give`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = 0.0
        self.give()

    def give(self, silence: float = 0.0) -> None:
        """Write a heartbeat; `silence` is how many seconds may now pass without another one."""
        now = time.monotonic()
        if now < self._next and not silence:
            return
        self._next = now + _EVERY_SECONDS
        with suppress(OSError):  # the next heartbeat may succeed
            os.pwrite(self._file, _MOMENT.pack(now + silence), 0)


class Wanted(Event):
    """An event that long loops check, see `wanted_until`, and that ends them once set. Each check calls `sign`."""

    def __init__(self, sign: Callable[[], None]) -> None:
        super().__init__()
        self._sign = sign

    def is_set(self) -> bool:
        """Call `sign`; return whether the work is to end."""
        self._sign()
        return super().is_set()


def silence_of(path: Path, since: float) -> float:
    """Return the seconds since the later of `since` and the last heartbeat in a file; below 0: announced silence."""
    last = since
    with suppress(OSError, struct.error):
        last = max(since, *_MOMENT.unpack(path.read_bytes()))
    return time.monotonic() - last
