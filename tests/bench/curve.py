"""Objectives against time, and when a curve falls below a level."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

LEVELS = (1e-2, 1e-3, 1e-4)
REPEATS = 3
# Differences below this are rounding, and the optimum is not known better.
_LEAST = 1e-9


@dataclass(frozen=True)
class Point:
    """After `seconds` of a run with these settings the primal objective was this."""

    seconds: float
    objective: float
    setting: str


def difference(objective: float, optimum: float) -> float:
    """(P - P*) / P*, but never below what can be told from rounding."""
    return max(objective / optimum - 1.0, _LEAST)


def seconds_to(points: Iterable[Point], optimum: float, level: float) -> float | None:
    """When the relative difference first was `level`; None if it never was.

    Between two measured points the logarithm of the difference is taken to fall evenly with time. A curve whose first
    point is below the level gets the seconds of that point.
    """
    before: tuple[float, float] | None = None
    for point in sorted(points, key=lambda point: point.seconds):
        at = difference(point.objective, optimum)
        if at <= level:
            if before is None or at == level:
                return point.seconds
            seconds, above = before
            share = math.log(above / level) / math.log(above / at)
            return seconds + share * (point.seconds - seconds)
        before = (point.seconds, at)
    return None


def median_seconds(curves: Sequence[Sequence[Point]], optimum: float, level: float) -> float | None:
    """Median over repeats of `seconds_to`; None if more than half of them did not get there."""
    return median_or_none([seconds_to(curve, optimum, level) for curve in curves])


def median_or_none(numbers: Sequence[float | None]) -> float | None:
    """Median, None counting as infinite."""
    middle = median([math.inf if number is None else number for number in numbers]) if numbers else math.inf
    return middle if math.isfinite(middle) else None
