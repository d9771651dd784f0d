"""The runs that StreamSVM's paper is held against: every contender, on every set, for every C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.cache_plan import plan_cache
from tests.bench import jobs
from tests.bench.papers.data import Data
from tests.bench.papers.trace import Optimum, Point, optimum_of, reference, trace

CS = (1e-4, 1e-2, 1.0, 100.0)
PASSES = 10
MOST_SECONDS = 1.5  # of processor time a run
REFERENCE_SECONDS = 4.0
LEVELS = (1e-2, 1e-3)  # relative differences
TIMED = ("imdb", "generated")  # sets on which two processes run against the clock, at C = 1
SHARES = (64, 16, 4, 1)  # parts of the data that are cached
UPDATES = 4  # a row and pass, about, of each contender
SCORE, PAPER, SBM, BM = "StreamSVM, score", "StreamSVM, paper", "SBM", "BM"
CONTENDERS: dict[str, dict[str, object]] = {
    SCORE: {"solver": "streamsvm", "updates_per_row": float(UPDATES)},
    PAPER: {"solver": "streamsvm_paper", "updates_per_row": float(UPDATES)},
    # Half of what it works on with each block has been there before.
    SBM: {"solver": "sbm", "inner_rounds": UPDATES // 2},
    BM: {"solver": "bm", "inner_rounds": UPDATES},
}

Traces = dict[str, list[Point]]


@dataclass
class Measured:
    """Runs on a set: of all contenders for each C, of `streamsvm` at C = 1 for each cache, and seconds by the clock."""

    data: Data
    remark: str
    runs: dict[float, Traces] = field(default_factory=dict)
    optima: dict[float, Optimum] = field(default_factory=dict)
    cached: Traces = field(default_factory=dict)
    clock: dict[str, list[float | None]] = field(default_factory=dict)

    @property
    def cached_optimum(self) -> Optimum:
        """With what the runs of `cached` have shown."""
        known = self.optima[1.0]
        return optimum_of((known.value, known.value * (1 - known.doubt)), self.cached.values())


def measure(data: Data) -> Measured:
    """Run everything on a set."""
    cache_bytes, remark = jobs.tenth(data.manifest)
    one = Measured(data, remark)
    for C in CS:
        one.runs[C] = {
            name: trace(data, C, cache_bytes, PASSES, MOST_SECONDS, **way) for name, way in CONTENDERS.items()
        }
        one.optima[C] = optimum_of(reference(data, C, REFERENCE_SECONDS), one.runs[C].values())
    if data.name in TIMED:
        one.cached = {share_name(part): _with_cache(data, part) for part in SHARES if _fits(data, part)}
        one.clock = {name: _clock_seconds(one, name, cache_bytes) for name in CONTENDERS}
    return one


def share_name(part: int) -> str:
    """What a cache of one of SHARES is called."""
    return "all of the data" if part == 1 else f"1/{part} of the data"


def _with_cache(data: Data, part: int) -> list[Point]:
    cache_bytes = data.whole if part == 1 else data.manifest.decoded_bytes // part
    return trace(data, 1.0, cache_bytes, PASSES, MOST_SECONDS, **CONTENDERS[SCORE])


def _fits(data: Data, part: int) -> bool:
    """Whether the longest row allows so small a cache."""
    try:
        plan_cache(data.manifest.decoded_bytes // part, data.manifest.longest_row)
    except CacheTooSmall:
        return False
    return True


def _clock_seconds(one: Measured, name: str, cache_bytes: int) -> list[float | None]:
    """Seconds of a job with two processes to each of LEVELS: it makes the very run that was traced."""
    points, optimum = one.runs[1.0][name], one.optima[1.0]
    job = jobs.train(
        one.data.dataset, C=1.0, cache_bytes=cache_bytes, tolerance=None, pace="fixed", max_passes=points[-1].passes,
        **CONTENDERS[name],
    )  # fmt: skip
    elapsed = {record["pass"]: record["elapsed_seconds"] for record in job.passes}
    levels = []
    for level in LEVELS:
        reached = [elapsed[point.passes] for point in points if optimum.difference(point) <= level]
        levels.append(reached[0] if reached else None)
    return levels


def lags(ours: Sequence[Point], theirs: Sequence[Point], optimum: Optimum) -> list[float]:
    """At each of our points after the second pass: our relative difference over theirs at as many updates.

    Theirs is taken to fall evenly between two points, both axes logarithmic. What is below ten times the doubt about
    the optimum, or beyond their updates, is not compared.
    """
    ratios = []
    for point in ours:
        other = _at(theirs, point.updates, optimum)
        if point.passes > 2 and other is not None and min(other, optimum.difference(point)) > 10 * optimum.doubt:
            ratios.append(optimum.difference(point) / other)
    return ratios


def _at(points: Sequence[Point], updates: float, optimum: Optimum) -> float | None:
    """Relative difference after so many updates a row."""
    for before, after in pairwise(points):
        if before.updates <= updates <= after.updates:
            low, high = optimum.difference(before), optimum.difference(after)
            share = math.log(updates / before.updates) / math.log(after.updates / before.updates)
            return low * (high / low) ** share
    return None
