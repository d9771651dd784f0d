"""When a job ends within a pass: its time is over, or a person asked for an end, and the pass goes on for long.

A pass that ends soon is waited for: a job that goes on from its end comes to what an undisturbed one comes to.
"""

import time
from collections.abc import Callable
from math import inf

from streamsvm.storage.run.state import Control

GRACE_SECONDS = 2.0


class Ended(Exception):
    """The job ends where it is in a pass. alpha and w go together; rows that have not been met wait for another job."""


class Limits:
    """
    elapsed_seconds   of the job so far
    max_seconds       that it may take, or None
    first_is_whole    time does not cut the first pass short: the rows are being read in, or other lanes have had their
                      time before, or will
    """

    def __init__(
        self,
        control: Control,
        elapsed_seconds: Callable[[], float],
        max_seconds: float | None,
        first_is_whole: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._elapsed_seconds = elapsed_seconds
        self._max_seconds = inf if max_seconds is None else max_seconds
        self._first_is_whole = first_is_whole
        self._clock = clock
        self._asked: float | None = None  # when it was first seen that a person asked for an end

    @property
    def reason(self) -> str | None:
        """Why the job has to end, at the end of the pass or before; None: it does not."""
        if self._elapsed_seconds() >= self._max_seconds:
            return "max_seconds"
        return "stopped" if self._control["stop"] else None

    @property
    def has_passed(self) -> bool:
        """Whether the end of the pass is waited for no more."""
        return self._has_waited() or self._is_late()

    def _is_late(self) -> bool:
        is_spared = self._first_is_whole and not self._control["finished_passes"]
        return not is_spared and self._elapsed_seconds() >= self._max_seconds + GRACE_SECONDS

    def _has_waited(self) -> bool:
        if not self._control["stop"]:
            return False
        if self._asked is None:
            self._asked = self._clock()
        return self._clock() - self._asked >= GRACE_SECONDS
