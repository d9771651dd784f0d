"""Ways to merge, and to visit rows, that are compared on a set, and what one saves against another."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from tests.bench.machines.data import Problem
from tests.bench.papers.bsca_runs import Epoch, level_of, saving

EPOCHS = 15
LEVELS = (5, 10, 15)  # epochs of the uniform runs, after which P is to be reached
GOLDEN, LOOKUP, ADAPTIVE = "golden, all", "lookup, 59", "lookup, 59, ACF"
WAYS: dict[str, dict[str, object]] = {
    GOLDEN: {"merge": "golden", "candidates": None},
    "lookup, all": {"merge": "lookup", "candidates": None},
    "golden, 59": {"merge": "golden", "candidates": 59},
    LOOKUP: {"merge": "lookup", "candidates": 59},
    ADAPTIVE: {"merge": "lookup", "candidates": 59, "selection": "adaptive"},
}
CURVES = (LOOKUP, ADAPTIVE)

Runs = list[list[Epoch]]  # one a seed


@dataclass(frozen=True)
class Measured:
    """All runs on a set, by way."""

    data: Problem
    runs: dict[str, Runs] = field(default_factory=dict)

    def last(self, way: str, what: str) -> list[float]:
        """A figure of the last epoch, a number a seed."""
        return [getattr(run[-1], what) for run in self.runs[way]]

    def saved(self, what: str, way: str) -> float:
        """1 - way / golden, all, of the medians."""
        return 1 - median(self.last(way, what)) / median(self.last(GOLDEN, what))

    def saved_by_seed(self, what: str, way: str) -> list[float]:
        """The same of each seed."""
        return [1 - one / all_ for one, all_ in zip(self.last(way, what), self.last(GOLDEN, what), strict=True)]


def acf_saves(one: Measured, passes: int, what: str) -> float | None:
    """Of the cost until P is that of uniform visits after so many epochs."""
    uniform, adaptive = (one.runs[way] for way in CURVES)
    return saving(uniform, adaptive, level_of(uniform, passes), what)
