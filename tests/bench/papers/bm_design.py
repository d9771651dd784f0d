"""The design of block minimization (Yu, Hsieh, Chang, Lin, KDD 2010, Figures 3 and 4), with BLOCK-L-D as there.

Its claims: rows have to be assigned to blocks at random; the order of the blocks is better changed in every pass; large
blocks are better than small ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from tests.bench import jobs
from tests.bench.papers.bm import BLOCKS, CS, METHODS, NEAR, way_of
from tests.bench.papers.bm_runs import Runs, columns, key_of, line, optimum, ratios, runs_of
from tests.bench.papers.data import Data, cache_for, read_in, sorted_by_class
from tests.bench.papers.figures import Measure, draw_runs, one_legend, panels_of, save
from tests.bench.papers.runs import is_wanted, kept, limit, seeds
from tests.bench.papers.trace import FEWEST_PASSES, Optimum, warm_up
from tests.bench.papers.verdict import PAIRED, Case, is_ratio_above, verdict
from tests.bench.report import header, prose, row, spread

LIMIT = limit("bm-design")
NAMES = ("imdb", "mnist8")
PASSES = 10
METHOD = METHODS["L-D"]
STANDARD = f"L-D, {BLOCKS} blocks"
SORTED, FIXED = "sorted by class, no split", "fixed order of blocks"
NAMES_OF = {4: "4 blocks", BLOCKS: STANDARD, 40: "40 blocks", 400: "400 blocks"}
SPLIT = "blocks of rows at random come nearer to the optimum than blocks of sorted rows."
PERMUTED = "a new order of the blocks in each pass comes nearer than a fixed one."
LARGE = (
    "the fewer and larger the blocks, the nearer, after as many seconds (the paper) and after as many updates (ours)."
)
COSTS: Mapping[str, Measure] = {
    "updates": lambda point: point.updates,
    "seconds": lambda point: point.seconds,
}


@dataclass(frozen=True)
class Measured:
    """Runs on a set with one thing changed; `clock`: seconds of their passes as jobs of two processes, one a seed."""

    data: Data
    optimum: Optimum
    design: dict[str, Runs]
    clock: dict[str, list[float]]

    def ratios(self, name: str, other: str = STANDARD, cost: str = "seconds") -> list[float]:
        """How much further off one design is than another, at equal cost: a number a seed."""
        return ratios(self.design[name], self.design[other], self.optimum, COSTS[cost])

    def is_further(self, name: str, other: str = STANDARD, cost: str = "seconds") -> bool | None:
        """Whether it is further off, beyond the seeds and the doubt about the optimum."""
        ends = [run[-1] for each in (name, other) for run in self.design[each]]
        is_close = any(self.optimum.difference(point) <= 10 * self.optimum.doubt for point in ends)
        return None if is_close else is_ratio_above(self.ratios(name, other, cost))


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"L-D, hinge loss, no bias; {BLOCKS} blocks split at random and visited in changing order, and one thing of "
        f"that changed. The cache holds one block. A run is {PASSES} passes, or {LIMIT:g} s of processor time; "
        f"{seeds()}, medians ± half the range. *by the clock*: seconds of as many passes of a job with two processes, "
        "on a disk that nobody slows down. *at equal updates*, *at equal seconds* (of processor time): how much "
        f"further off than {STANDARD}, where the cheaper of the two runs of a seed ended; "
        f"{PAIRED}. The paper compares at equal seconds, on larger sets. Its "
        "blocks are files; here a small block is a part of a larger stored piece, which is read and decoded whole for "
        "it (MB read), so small blocks cost more seconds here than there."
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [way_of(METHOD)])
        for name in filter(is_wanted, NAMES):
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
            else:
                measured.append(_measure(Path(directory), data))
                yield from _table(measured[-1])
        if not measured:
            return
        yield save(_figure(measured), "bm-design")
        yield ""
        yield from verdict(SPLIT, [_case(one, SORTED) for one in measured])
        yield from verdict(PERMUTED, [_case(one, FIXED) for one in measured])
        yield from verdict(LARGE, [growth(one, cost) for one in measured for cost in COSTS], _advice(measured))


def _measure(directory: Path, data: Data) -> Measured:
    ways: dict[str, dict[str, object]] = {
        STANDARD: {},
        SORTED: {},
        FIXED: {"permute_blocks": False},
        **{name: {"n_blocks": blocks} for blocks, name in NAMES_OF.items() if name != STANDARD},
    }
    datasets = {SORTED: sorted_by_class(directory, data)}
    pairs = {name: _runs(data, name, datasets.get(name, data.dataset), way_of(METHOD, **ways[name])) for name in ways}
    design, clock = {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
    return Measured(data, optimum("bm-design", data, CS[data.name], design.values()), design, clock)


def _runs(data: Data, name: str, dataset: Path, way: dict[str, object]) -> tuple[Runs, list[float]]:
    """Points of the runs, and seconds by the clock of as many passes of jobs."""
    C, cache_bytes = CS[data.name], cache_for(data.manifest, way["n_blocks"])  # type: ignore[arg-type]
    key = *key_of(data), name
    runs = runs_of("bm-design", key, data, C, cache_bytes, PASSES, LIMIT, dataset=dataset, **way)
    clock = [
        kept("bm-design", (*key, seed, "clock"), lambda run=run, seed=seed: _clock(
            dataset, C=C, cache_bytes=cache_bytes, max_passes=run[-1].passes, seed=seed, **way
        ))
        for seed, run in enumerate(runs)
    ]  # fmt: skip
    return runs, clock


def _clock(dataset: Path, **fields: object) -> float:
    return jobs.train(dataset, tolerance=None, **fields).passes[-1]["elapsed_seconds"]


def _table(one: Measured) -> Iterator[str]:
    yield f"### {one.data.name}, C = {CS[one.data.name]:g}"
    yield ""
    names = (*columns(FEWEST_PASSES, NEAR), "by the clock", *(f"at equal {cost}" for cost in COSTS))
    yield from header("design", *names)
    for name, runs in one.design.items():
        equal = ["1" if name == STANDARD else spread(one.ratios(name, cost=cost), ".2g") for cost in COSTS]
        first = line(name, runs, one.optimum, FEWEST_PASSES, NEAR).removesuffix(" |")
        yield f"{first} {row(spread(one.clock[name]), *equal)}"
    yield ""


def _figure(measured: Sequence[Measured]) -> Figure:
    figure, panels = panels_of(2, len(measured), (3.8 * len(measured), 6))
    for one, (by_updates, by_seconds) in zip(measured, panels.T, strict=True):
        draw_runs(by_updates, one.design, COSTS["updates"], one.optimum.difference)
        draw_runs(by_seconds, one.design, COSTS["seconds"], one.optimum.difference)
        by_updates.set(title=f"{one.data.name}, L-D", xlabel="updates a row")
        by_seconds.set(xlabel="processor time (s)")
        for axes in (by_updates, by_seconds):
            axes.set(ylabel="(P - P*) / P*")
    one_legend(figure, panels.ravel(), 3)
    return figure


def _case(one: Measured, name: str) -> Case:
    """Whether it is worse than the standard after as many seconds."""
    figures = f"{name}: {spread(one.ratios(name), '.2g')} times as far off at equal seconds"
    return Case(one.data.name, one.is_further(name), figures)


def growth(one: Measured, cost: str) -> Case:
    """Whether the distance grows with the number of blocks: over all of them, and nowhere falls."""
    names = list(NAMES_OF.values())
    steps = {one.is_further(more, fewer, cost) for fewer, more in pairwise(names)}
    holds = False if False in steps else one.is_further(names[-1], names[0], cost)
    shown = [f"{blocks}: {median(one.ratios(name, cost=cost)):.2g}" for blocks, name in NAMES_OF.items()]
    return Case(f"{one.data.name} at equal {cost}", holds, f"off over that of {BLOCKS} blocks: {', '.join(shown)}")


def _advice(measured: Iterable[Measured]) -> str:
    """The number of blocks that was nearest at equal seconds, on each set."""
    best = {one.data.name: min(NAMES_OF, key=lambda blocks, one=one: _distance(one, blocks)) for one in measured}
    return (
        "let rows be shuffled as they are read in, which is the default; nearest at equal seconds were "
        f"{', '.join(f'{blocks} blocks on {name}' for name, blocks in best.items())}."
    )


def _distance(one: Measured, blocks: int) -> float:
    return median(one.ratios(NAMES_OF[blocks]))
