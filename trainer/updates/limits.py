"""Ends a job within a pass if its time is over or a person stopped it, and the pass lasts GRACE_SECONDS longer.

A shorter pass is finished: a job that continues from the end of a pass reaches the same model as an undisturbed one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from streamsvm.storage.machine.compiling import COMPILE_TIME
from streamsvm.storage.run.state import Control, compile_seconds


class Elapsed:
    """Counts a job's seconds, beginning with those in the control page; stands still while this process compiles.

    compiled  returns the seconds for which this process has compiled kernels
    """

    def __init__(
        self,
        control: Control,
        clock: Callable[[], float],
        compiled: Callable[[], float] = lambda: COMPILE_TIME.seconds,
    ) -> None:
        self._control, self._clock, self._compiled = control, clock, compiled
        self._began = clock() - compiled() - control["elapsed_seconds"]
        self._waited_from: float | None = None  # for how many seconds the reader had compiled when a wait began

    @property
    def seconds(self) -> float:
        """Seconds that the job has taken, in all attempts."""
        return self._clock() - self._compiled() - self._began - self._reader_compiled()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Enter a context in which the trainer waits for the reader: time stands still while the reader compiles."""
        self._waited_from = compile_seconds(self._control, "reader")
        try:
            yield
        finally:
            self._began += self._reader_compiled()
            self._waited_from = None

    def _reader_compiled(self) -> float:
        if self._waited_from is None:
            return 0.0
        return compile_seconds(self._control, "reader") - self._waited_from


GRACE_SECONDS = 2.0


class Ended(Exception):
    """Ends a job within a pass. w = sum_i alpha_i y_i x_i holds; rows not visited in the pass keep their alpha."""


class JobLimits:
    """Tells whether a job has to end within its pass.

    elapsed_seconds   returns how long the job has taken so far
    max_seconds       seconds that the job may take; None: no limit
    first_is_whole    time does not cut the first pass short: the rows are being read in, or lanes trained one after
                      the other share the time, and each lane gets one pass at least
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
        """Why the job has to end, at the end of its pass or earlier: "max_seconds" or "stopped"; None: it goes on."""
        if self._elapsed_seconds() >= self._max_seconds:
            return "max_seconds"
        return "stopped" if self._control["stop"] else None

    @property
    def has_passed(self) -> bool:
        """Whether the job has to end now, without waiting for the end of the pass."""
        if self._control["stop"]:
            if self._asked is None:
                self._asked = self._clock()
            if self._clock() - self._asked >= GRACE_SECONDS:
                return True
        is_spared = self._first_is_whole and not self._control["finished_passes"]
        return not is_spared and self._elapsed_seconds() >= self._max_seconds + GRACE_SECONDS
