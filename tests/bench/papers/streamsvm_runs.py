"""The runs that StreamSVM's paper is held against: every contender, on every set, for every C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.bench import jobs
from tests.bench.papers.data import Data
from tests.bench.papers.runs import limit
from tests.bench.papers.trace import Optimum, Point, optimum_of, reference, trace_kept

LIMIT = limit("streamsvm")
CS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)  # the paper's
PASSES = 10
REFERENCE_SECONDS = 60.0
LEVELS = (1e-2, 1e-3)  # relative differences
UPDATES = 4  # a row and pass, about, of each contender
OURS, PAPER, SBM, BM = "streamsvm", "StreamSVM, paper", "SBM", "BM"
CONTENDERS: dict[str, dict[str, object]] = {
    OURS: {"solver": "streamsvm", "updates_per_row": float(UPDATES)},
    PAPER: {"solver": "streamsvm_paper", "updates_per_row": float(UPDATES)},
    # Half of what it works on with each block has been there before.
    SBM: {"solver": "sbm", "select": "distance", "inner_rounds": UPDATES // 2},
    BM: {"solver": "bm", "inner_rounds": UPDATES},
}

Traces = dict[str, list[Point]]


@dataclass
class Measured:
    """Runs on a set, of all contenders for each C."""

    data: Data
    remark: str
    runs: dict[float, Traces] = field(default_factory=dict)
    optima: dict[float, Optimum] = field(default_factory=dict)


def measure(data: Data) -> Measured:
    """Run everything on a set."""
    cache_bytes, remark = jobs.tenth(data.manifest)
    one = Measured(data, remark)
    for C in CS:
        one.runs[C] = {
            name: trace_kept("streamsvm", (data.name, C, name), data, C, cache_bytes, PASSES, LIMIT, **way)
            for name, way in CONTENDERS.items()
        }
        one.optima[C] = optimum_of(reference(data, C, REFERENCE_SECONDS), one.runs[C].values())
    return one


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
