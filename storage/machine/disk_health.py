"""Decides when a job stops using a disk: when the disk is too slow for too long, or too full."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS_A_BYTE = 5e-9  # 200 MB/s: if the disk is slower, training is faster when only the reader uses the disk
# The time that a job may lose to a slow disk is _SECONDS, plus _SHARE of the time since the job began.
_SECONDS, _SHARE = 3.0, 0.2


class DiskSlow(OSError):
    """The disk has been too slow for too long: training is faster if only the reader uses the disk."""


class DiskFull(OSError):
    """Less space is free on the disk than the job's files take: other programs need the space."""


class DiskHealth:
    """Counts the seconds that reads and writes in `timed` take beyond 5 ns a byte; faster ones subtract from the count.

    free    returns the number of free bytes on the disk of a directory
    clock   returns the time in seconds
    """

    def __init__(
        self,
        directory: str,
        free: Callable[[str], int] = lambda directory: shutil.disk_usage(directory).free,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._directory = directory
        self._free = free
        self._clock = clock
        self._began = clock()
        self._lost = 0.0
        self._lock = threading.Lock()

    @property
    def is_too_slow(self) -> bool:
        """Whether the disk has lost more time than it may: 3 s, plus a fifth of the time since this object was made."""
        return self._lost > _SECONDS + _SHARE * (self._clock() - self._began)

    def check(self) -> None:
        """Raise DiskSlow if `is_too_slow`."""
        if self.is_too_slow:
            raise DiskSlow("the disk is slow")

    def timed(self, n_bytes: int, at_once: int, work: Callable[[], T]) -> T:
        """Time `work`, which reads or writes `n_bytes` while `at_once` threads do such work; return its result."""
        began = self._clock()
        result = work()
        late = (self._clock() - began) / at_once - n_bytes * _SECONDS_A_BYTE
        with self._lock:
            self._lost = max(0.0, self._lost + late)
        return result

    def allows(self, taken: int, more: int) -> bool:
        """Whether files that take `taken` bytes may grow by `more` bytes: only if twice their new size is free.

        Raises DiskFull if fewer than `taken` bytes are free.
        """
        free = self._free(self._directory)
        if free < taken:
            raise DiskFull("others need the disk")
        return free >= 2 * (taken + more)
