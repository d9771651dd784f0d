"""When a disk is given up: it is full, or others need it more."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS_A_BYTE = 5e-9  # 200 MB/s: where a disk is slower, the reader makes better use of it
# A disk that is busy for a while is waited for: seconds lost to slowness, and a share of those since the job began.
_SECONDS, _SHARE = 3.0, 0.2


class DiskSlow(OSError):
    """The reader makes better use of it."""


class DiskFull(OSError):
    """Others need it."""


class Patience:
    """`timed` work on the disk uses it up where the disk is slow; fast work brings it back.

    free    bytes that are free on the disk
    clock   seconds; the reads of several threads at once count as one after the other
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
    def is_over(self) -> bool:
        """Whether the disk has been too slow for too long."""
        return self._lost > _SECONDS + _SHARE * (self._clock() - self._began)

    def check(self) -> None:
        """Raises DiskSlow if it is over."""
        if self.is_over:
            raise DiskSlow("the disk is slow")

    def timed(self, n_bytes: int, at_once: int, work: Callable[[], T]) -> T:
        """What the work on so many bytes results in, `at_once` such works being done side by side."""
        began = self._clock()
        result = work()
        late = (self._clock() - began) / at_once - n_bytes * _SECONDS_A_BYTE
        with self._lock:
            self._lost = max(0.0, self._lost + late)
        return result

    def allows(self, taken: int, more: int) -> bool:
        """Grow only while free space is twice our size; raises DiskFull when it is below our size."""
        free = self._free(self._directory)
        if free < taken:
            raise DiskFull("others need the disk")
        return free >= 2 * (taken + more)
