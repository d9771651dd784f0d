"""What the seeds' spread lets one say of two kernel machines, and cases of a verdict put together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from tests.bench.papers.runs import NOISE
from tests.bench.papers.verdict import Case


def is_less(ours: Sequence[float], theirs: Sequence[float], least: float = 0.0) -> bool | None:
    """Whether the median of ours is the smaller one; inf: a run that did not get there.

    None: they differ by no more than `least`, than half the range of the seeds of either, or, one run each, than NOISE.
    """
    a, b = median(ours), median(theirs)
    if math.inf in (a, b):
        fast = ours if a < b else theirs
        return None if a == b or max(fast) == math.inf else a < b
    doubt = max(least, *((max(each) - min(each)) / 2 for each in (ours, theirs)))
    if len(ours) == len(theirs) == 1:
        doubt = max(doubt, (NOISE - 1) * min(abs(a), abs(b)))
    return None if abs(a - b) <= doubt else a < b


def is_less_accurate(
    ours: Sequence[float], theirs: Sequence[float], held_out: int, allowed: float = 0.0
) -> bool | None:
    """Whether the median accuracy of ours is the smaller one by more than `allowed`.

    None: they differ by no more than half the range of the seeds, or, in errors, than the root of their number.
    """
    errors = [[1 - accuracy for accuracy in each] for each in (theirs, ours)]
    return is_less(*errors, least=max(allowed, math.sqrt(max(map(median, errors)) / held_out)))


def joined(cases: Iterable[tuple[str, Case]]) -> list[Case]:
    """One case for all that have the same group and the same verdict."""
    groups: dict[tuple[str, bool | None], list[Case]] = {}
    for group, case in cases:
        groups.setdefault((group, case.holds), []).append(case)
    return [
        Case(group, holds, ", ".join(f"{case.where}: {case.figures}" for case in some))
        for (group, holds), some in groups.items()
    ]


def listed(names: Sequence[object]) -> str:
    """Names with commas, or `none`."""
    return ", ".join(map(str, names)) if names else "none"
