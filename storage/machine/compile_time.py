"""Measures how long this process compiles kernels, which takes seconds to minutes at their first use."""

import os
import sys
import time
from collections.abc import Callable
from functools import cache

from streamsvm.storage.machine.child import PARENT_VARIABLE

COMPILING = "compiling kernels, once"
NOTICED_SECONDS = 1.0


class CompileTime:
    """Adds up the seconds in which kernels are compiled, in any thread; numba compiles one kernel at a time.

    tell  a function that is called with the time.monotonic when compiling begins, and with 0.0 when it ends
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tell: Callable[[float], object] = lambda _since: None
        self._clock = clock
        self._depth = 0  # nesting: compiling a kernel compiles the kernels that it calls
        # Seconds of ended compilations, and when the current one began (0.0: none runs); threads read both at once.
        self._state = 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, including those of a kernel that is being compiled now."""
        before, since = self._state
        return before + (self._clock() - since if since else 0.0)

    def begin(self) -> None:
        """Record that numba begins to compile a kernel."""
        self._depth += 1
        if self.seconds > NOTICED_SECONDS and PARENT_VARIABLE not in os.environ:
            say_compiling()
        if self._depth == 1:
            self._state = self._state[0], self._clock()
            self.tell(self._state[1])

    def end(self) -> None:
        """Record that numba has compiled a kernel, or has failed to compile it."""
        self._depth -= 1
        if self._depth == 0:
            self._state = self.seconds, 0.0
            self.tell(0.0)


@cache
def say_compiling() -> None:
    """Print, once in a process, that kernels are being compiled: a user sees why the first training is slow."""
    print(f"streamsvm: {COMPILING}, for some 20 s", file=sys.stderr, flush=True)


COMPILE_TIME = CompileTime()  # the times of this process, see storage.machine.compiled
