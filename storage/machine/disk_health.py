"""Decides when a job stops using a disk: the disk is too slow for too long, or too full."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS_A_BYTE = 5e-9  # 200 MB/s: a slower disk serves training better when only the reader uses it
# The time that a job may lose to a slow disk: so many seconds, and this share of the time since it began.
_SECONDS, _SHARE = 3.0, 0.2


class DiskSlow(OSError):
    """The disk has been too slow for too long: it is better left to the reader."""


class DiskFull(OSError):
    """Less space is free on the disk than the job's files take: others need it."""


class DiskHealth:
    """Counts the seconds that `timed` reads and writes lose to a slow disk; fast ones bring lost seconds back.

    free    tells the bytes that are free on the disk of a directory
    clock   tells the time in seconds
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
        """Whether more time has been lost than the disk is allowed."""
        return self._lost > _SECONDS + _SHARE * (self._clock() - self._began)

    def check(self) -> None:
        """Raises DiskSlow if the disk is too slow."""
        if self.is_too_slow:
            raise DiskSlow("the disk is slow")

    def timed(self, n_bytes: int, at_once: int, work: Callable[[], T]) -> T:
        """Do `work`, which reads or writes `n_bytes` while `at_once` threads do such work, and return its result."""
        began = self._clock()
        result = work()
        late = (self._clock() - began) / at_once - n_bytes * _SECONDS_A_BYTE
        with self._lock:
            self._lost = max(0.0, self._lost + late)
        return result

    def allows(self, taken: int, more: int) -> bool:
        """Whether files of `taken` bytes may grow by `more`: only while twice their new size is free.

        Raises DiskFull when less is free than they take already.
        """
        free = self._free(self._directory)
        if free < taken:
            raise DiskFull("others need the disk")
        return free >= 2 * (taken + more)
