"""Objectives against time, and when a curve falls below a level."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tests.bench.usage import Spent

# Differences below this are rounding, and the optimum is not known better.
_LEAST = 1e-9


@dataclass(frozen=True)
class Point:
    """A point of a run: what it has spent, and its primal objective then."""

    spent: Spent
    objective: float


def difference(objective: float, optimum: float) -> float:
    """(P - P*) / P*, but never below what can be told from rounding."""
    return max(objective / optimum - 1.0, _LEAST)


def spent_to(points: Iterable[Point], optimum: float, level: float) -> Spent | None:
    """What was spent when the relative difference first was `level`; None if it never was.

    Between two measured points the logarithm of the difference is taken to fall evenly with time. A curve whose first
    point is below the level gets what was spent at that point.
    """
    before: tuple[Spent, float] | None = None
    for point in sorted(points, key=lambda point: point.spent.seconds):
        at = difference(point.objective, optimum)
        if at <= level:
            if before is None or at == level:
                return point.spent
            spent, above = before
            return _between(spent, point.spent, math.log(above / level) / math.log(above / at))
        before = (point.spent, at)
    return None


def _between(first: Spent, last: Spent, share: float) -> Spent:
    seconds = first.seconds + share * (last.seconds - first.seconds)
    if first.core_seconds is None or last.core_seconds is None:
        return Spent(seconds)
    return Spent(seconds, first.core_seconds + share * (last.core_seconds - first.core_seconds))
