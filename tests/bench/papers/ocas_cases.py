"""Which solver is sooner, by all repeats, and what a verdict says of it: a case a set, not one a value of C."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.papers.runs import NOISE
from tests.bench.papers.verdict import Case

Seconds = Sequence[float | None]  # one a repeat; None: never


@dataclass(frozen=True)
class Contest:
    """OCAS's seconds against those of the others on a set (`at`: a value of C, or another part of it)."""

    name: str
    at: str
    ours: Seconds
    theirs: Mapping[str, Seconds]

    @property
    def holds(self) -> bool | None:
        """Whether OCAS is sooner than all others."""
        each = [is_sooner(self.ours, seconds) for seconds in self.theirs.values()]
        return False if False in each else True if each and all(each) else None

    @property
    def figures(self) -> str:
        """OCAS's seconds in those of the soonest other."""
        name, best = min(((name, middle(each)) for name, each in self.theirs.items()), key=lambda each: each[1])
        ours = middle(self.ours)
        if math.isinf(best):
            return "never, nor others" if math.isinf(ours) else f"{ours:.2g} s, others never"
        return f"never, {name} {best:.2g} s" if math.isinf(ours) else f"{ours / best:.2g} times {name}'s"

    @property
    def soonest(self) -> str:
        """The solver with the least median; "nobody"."""
        name, best = min(
            ((name, middle(each)) for name, each in {"OCAS here": self.ours, **self.theirs}.items()),
            key=lambda each: each[1],
        )
        return "nobody" if math.isinf(best) else name


def middle(seconds: Seconds) -> float:
    """The median, never counted as infinite."""
    return median(_numbers(seconds))


def is_sooner(ours: Seconds, theirs: Seconds) -> bool | None:
    """Whether each of ours is less than each of theirs, or the other way; None: the repeats differ by more than that.

    Of single runs what differs by no more than NOISE decides nothing.
    """
    one, other = _numbers(ours), _numbers(theirs)
    if math.isinf(min(*one, *other)):
        return None
    margin = NOISE if min(len(one), len(other)) == 1 else 1.0
    if margin * max(one) < min(other):
        return True
    return False if margin * max(other) < min(one) else None


def _numbers(seconds: Seconds) -> list[float]:
    return [math.inf if each is None else each for each in seconds]


def grouped(contests: Iterable[Contest]) -> list[Case]:
    """A case for all contests of a set that end alike."""
    groups: dict[tuple[str, bool | None], list[Contest]] = {}
    for contest in contests:
        if contest.theirs:
            groups.setdefault((contest.name, contest.holds), []).append(contest)
    return [
        Case(_where(name, each), holds, "; ".join(one.figures for one in each))
        for (name, holds), each in groups.items()
    ]


def _where(name: str, contests: Sequence[Contest]) -> str:
    parts = [contest.at for contest in contests if contest.at]
    return f"{name}, C = {', '.join(parts)}" if parts else name


def winners(contests: Sequence[Contest]) -> str:
    """Count for each solver how often it was the soonest."""
    count = Counter(contest.soonest for contest in contests if contest.theirs)
    return ", ".join(f"{name} on {times}" for name, times in count.most_common()) + f" of {count.total()}"
