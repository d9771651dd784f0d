"""The runs that StreamSVM's paper is held against: every contender, on every set, for every C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.bench import jobs
from tests.bench.papers.data import Data
from tests.bench.papers.figures import at
from tests.bench.papers.runs import SEEDS, kept, limit
from tests.bench.papers.trace import Optimum, Point, optimum_of, reference, trace_kept, updates_to

LIMIT = limit("streamsvm")
CS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)  # the paper's
# Where C is smaller, all alpha are C after a pass of any contender, as they are at the least C here.
LEAST = {"imdb": 1e-2, "generated": 1e-2}
PASSES = 10
END = 1e-6  # relative duality gap
REFERENCE_SECONDS = 15.0
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

Traces = dict[str, list[list[Point]]]  # of each contender, for each seed


@dataclass
class Measured:
    """Runs on a set, of all contenders for each C."""

    data: Data
    remark: str
    runs: dict[float, Traces] = field(default_factory=dict)
    optima: dict[float, Optimum] = field(default_factory=dict)

    def is_near(self, C: float) -> bool:
        """Whether any contender came near the optimum in its first run."""
        return any(updates_to(found[0], self.optima[C], LEVELS[0]) is not None for found in self.runs[C].values())


def measure(data: Data) -> Measured:
    """Run everything on a set, all C with one seed before the next; with that only what somebody nearly solved."""
    cache_bytes, remark = jobs.tenth(data.manifest)
    one = Measured(data, remark)
    Cs = [C for C in CS if LEAST.get(data.name, 0.0) <= C]
    for seed in range(SEEDS):
        for C in Cs:
            if seed == 0 or one.is_near(C):
                found = one.runs.setdefault(C, {name: [] for name in CONTENDERS})
                for name, way in CONTENDERS.items():
                    given = data, C, cache_bytes, PASSES, LIMIT, END
                    found[name].append(trace_kept("streamsvm", (data.name, C, name, seed), *given, **way, seed=seed))
                near = kept("streamsvm", (data.name, C, "reference"), partial(reference, data, C, REFERENCE_SECONDS))
                one.optima[C] = optimum_of(near, [points for seeds in found.values() for points in seeds])
    return one


def lags(ours: Sequence[Point], theirs: Sequence[Point], optimum: Optimum) -> list[float]:
    """At each of our points after the second pass: our relative difference over theirs at as many updates.

    Theirs is taken to fall evenly between two points, both axes logarithmic. What is beyond their updates, or where
    runs end, or below ten times the doubt about the optimum, is not compared.
    """
    ratios = []
    for point in ours:
        if point.passes > 2 and theirs[0].updates <= point.updates <= theirs[-1].updates:
            curve = [(each.updates, optimum.difference(each)) for each in theirs]
            own, other = optimum.difference(point), float(at(curve, [point.updates])[0])
            if min(own, other) > floor(optimum):
                ratios.append(own / other)
    return ratios


def floor(optimum: Optimum) -> float:
    """Relative difference below which nobody is nearer than another."""
    return max(END, 10 * optimum.doubt)
