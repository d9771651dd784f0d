"""The time that a job has taken, without that for which its kernels were compiled: a machine compiles them once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamsvm.storage.machine.compile_time import COMPILE_TIME
from streamsvm.storage.run.compiling import compile_seconds
from streamsvm.storage.run.state import Control


class Elapsed:
    """Counts on from the seconds that a control page has; stands still while this process compiles.

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
        self._waited_from: float | None = None  # seconds that the reader had compiled when a wait began

    @property
    def seconds(self) -> float:
        """Seconds that the job has taken, in all attempts."""
        return self._clock() - self._compiled() - self._began - self._reader_compiled()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within the context the trainer waits for the reader, and time stands still while that compiles."""
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
