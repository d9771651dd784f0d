"""LIBLINEAR's speed: seconds of one sweep of its coordinate descent over all rows.

Its `train` does more than sweeps: it sorts the rows by class and, before the first sweep, goes through all of them
for their norms and for a w of zeros. And its shrinking leaves rows out of later sweeps; it does not say how many. So
two runs on the same data are timed, one that ends after its first sweep (any spread of gradients is within a huge
-e) and one that ends after k, the fewest sweeps above one for which there is an -e; a sweep is the difference over
k - 1. The second sweep still looks at every row, for a row is shrunk only after its gradient was computed. With k = 2,
the usual case, the figure is exact; with a larger k rows may have been left out of the third sweep and later, and
LIBLINEAR comes out faster than it is. It prints the number of its sweeps.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from liblinear import liblinear as binding
from liblinear import liblinearutil

HUGE_EPS = 1e6
_SMALL_EPS = 1e-2
_BISECTIONS = 12
_TRIES = 10
_SWEEPS = re.compile(r"#iter = (\d+)")


@dataclass(frozen=True)
class Run:
    """A run of LIBLINEAR: its seconds and how many sweeps it made."""

    seconds: float
    sweeps: int


def run(problem: binding.problem, C: float, eps: float) -> Run:
    """-s 3 -B -1, timed."""
    printed: list[bytes] = []
    parameter = binding.parameter(f"-s 3 -c {C!r} -e {eps!r} -B -1")
    parameter.print_func = binding.PRINT_STRING_FUN(printed.append)
    began = time.perf_counter()
    liblinearutil.train(problem, parameter)
    seconds = time.perf_counter() - began
    return Run(seconds, sweeps_of(b"".join(printed).decode()))


def sweeps_of(printed: str) -> int:
    """The number of sweeps in what LIBLINEAR prints."""
    found = _SWEEPS.search(printed)
    if found is None:
        raise ValueError(f"LIBLINEAR did not print how many iterations it made: {printed!r}")
    return int(found[1])


def eps_of_fewest_sweeps(sweeps: Callable[[float], int]) -> float:
    """The -e with the fewest sweeps above one, by bisection; `sweeps` gives how many a run with an -e makes."""
    high, low = HUGE_EPS, _SMALL_EPS
    fewest, found = sweeps(low), low
    for _ in range(_BISECTIONS):
        if fewest <= 2:
            break
        # Quickly down from the huge value, then as finely as a spread of gradients may need.
        middle = min((high * low) ** 0.5, 64.0) if high > 64.0 else (high + low) / 2
        count = sweeps(middle)
        if count == 1:
            high = middle
            continue
        low = middle
        if count < fewest:
            fewest, found = count, middle
    return found


def longer_run(problem: binding.problem, C: float, eps: float) -> Run:
    """A run of more than one sweep; its order of rows is another each time, and with it, at times, their number."""
    for _ in range(_TRIES):
        found = run(problem, C, eps)
        if found.sweeps > 1:
            return found
    raise RuntimeError(f"LIBLINEAR ends after one sweep with -e {eps!r}")


def sweep_seconds(short: Run, long: Run) -> float:
    """Seconds of a sweep, from runs of different length."""
    return (long.seconds - short.seconds) / (long.sweeps - short.sweeps)
