"""Seconds by the clock, and core seconds: user and system time of processes, all of their threads together."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

REPEATS = int(os.environ.get("REPEATS", "3"))  # of what is measured
CORES = len(os.sched_getaffinity(0))
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds, and the core seconds in them; None: not known."""

    seconds: float
    core_seconds: float | None = None

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, _known(lambda a, b: a + b, self.core_seconds, other.core_seconds))

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.seconds - other.seconds, _known(lambda a, b: a - b, self.core_seconds, other.core_seconds))


def _known(operation: Callable[[float, float], float], *numbers: float | None) -> float | None:
    return None if None in numbers else operation(*numbers)


def median_spent(several: list[Spent]) -> Spent:
    """Return the median of each of the two; of core seconds None, if some are not known."""
    cores = [spent.core_seconds for spent in several]
    return Spent(median(spent.seconds for spent in several), None if None in cores else median(cores))


def own_core_seconds() -> float:
    """Of this process alone."""
    return time.process_time()


def core_seconds_below() -> float:
    """Of all processes below this one that live, and of those that have been waited for.

    What a process below left behind without waiting for it is not in it: see launch.py.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = psutil.Process().children(recursive=True)
    return ended.ru_utime + ended.ru_stime + sum(_of_process(child.pid) for child in living)


def _of_process(pid: int) -> float:
    """Of it and of those it has waited for; to a hundredth of a second."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0  # it has ended
    # After the name, which is in brackets and may hold anything: the state is field 3 and utime field 14.
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) * _TICK


class Stopwatch:
    """Runs from when it is made; `core_seconds` says whose count."""

    def __init__(self, core_seconds: Callable[[], float], clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = lambda: Spent(clock(), core_seconds())
        self._began = self._lap = self._now()

    def total(self) -> Spent:
        """Since it was made."""
        return self._now() - self._began

    def lap(self) -> Spent:
        """Since the last lap."""
        now = self._now()
        spent, self._lap = now - self._lap, now
        return spent
