"""The design of block minimization (Yu, Hsieh, Chang, Lin, KDD 2010, Figures 3 and 4), with BLOCK-L-D as there.

Its claims: rows have to be assigned to blocks at random; the order of the blocks is better changed in every pass; large
blocks are better than small ones; compressed blocks save time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from tests.bench import jobs
from tests.bench.papers.bm import BLOCKS, CS, METHODS, Traces, line, way_of
from tests.bench.papers.compression import compression
from tests.bench.papers.data import Data, cache_for, read_in, sorted_by_class
from tests.bench.papers.figures import draw, one_legend, save
from tests.bench.papers.runs import NOISE, is_more, is_wanted, kept, limit
from tests.bench.papers.trace import Optimum, Point, optimum_of, reference, trace_kept, warm_up
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import cell, header, prose, row

LIMIT = limit("bm-design")
NAMES = ("imdb", "mnist8")
MORE_BLOCKS = (4, 40, 400)
PASSES = 10
REFERENCE_SECONDS = 60.0
METHOD = METHODS["L-D"]
STANDARD = f"L-D, {BLOCKS} blocks"
SORTED, FIXED = "sorted by class, no split", "fixed order of blocks"
SPLIT = "blocks of rows at random come nearer to the optimum than blocks of sorted rows."
PERMUTED = "a new order of the blocks in each pass comes nearer than a fixed one."
LARGE = "the fewer and larger the blocks, the nearer after as many updates."


@dataclass(frozen=True)
class Measured:
    """Runs on a set with one thing changed; `clock`: seconds of their passes as jobs of two processes."""

    data: Data
    optimum: Optimum
    design: Traces
    clock: dict[str, float]


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"L-D, hinge loss, no bias; {BLOCKS} blocks split at random and visited in changing order, and one thing of "
        f"that changed. The cache holds one block. A run is {PASSES} passes, or {LIMIT:g} s. *by the clock*: seconds "
        "of as many passes of a job with two processes, on a disk that nobody slows down. Single runs: what differs by "
        f"less than {NOISE:g} times is undecided."
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
        yield from verdict(LARGE, [_growth(one) for one in measured])
        yield from compression([one.data for one in measured])


def _measure(directory: Path, data: Data) -> Measured:
    ways: dict[str, dict[str, object]] = {
        STANDARD: {},
        SORTED: {},
        FIXED: {"permute_blocks": False},
        **{f"{blocks} blocks": {"n_blocks": blocks} for blocks in MORE_BLOCKS},
    }
    datasets = {SORTED: sorted_by_class(directory, data)}
    pairs = {name: _runs(data, name, datasets.get(name, data.dataset), way_of(METHOD, **ways[name])) for name in ways}
    design, clock = ({name: pair[place] for name, pair in pairs.items()} for place in (0, 1))
    known = reference(data, CS[data.name], REFERENCE_SECONDS)
    return Measured(data, optimum_of(known, design.values()), design, clock)


def _runs(data: Data, name: str, dataset: Path, way: dict[str, object]) -> tuple[list[Point], float]:
    """Points of a run, and seconds by the clock of as many passes of a job."""
    C, cache_bytes = CS[data.name], cache_for(data.manifest, way["n_blocks"])  # type: ignore[arg-type]
    key = data.name, name
    points = trace_kept("bm-design", key, data, C, cache_bytes, PASSES, LIMIT, dataset=dataset, **way)
    fields = {"C": C, "cache_bytes": cache_bytes, "max_passes": points[-1].passes, **way}
    return points, kept("bm-design", (*key, "clock"), lambda: _clock(dataset, **fields))


def _clock(dataset: Path, **fields: object) -> float:
    return jobs.train(dataset, tolerance=None, **fields).passes[-1]["elapsed_seconds"]


def _table(one: Measured) -> Iterator[str]:
    yield f"### {one.data.name}, C = {CS[one.data.name]:g}"
    yield ""
    yield from header(
        "design", "off after 4 passes", "test accuracy", "updates a row", "seconds", "MB read", "seconds to 1e-02",
        "off in the end", "test accuracy", "passes", "updates a row", "seconds", "by the clock", "off at equal updates",
    )  # fmt: skip
    for name, points in one.design.items():
        equal = ratio_at_equal_updates(one.design, name, one.optimum)
        yield (
            line(name, points, one.optimum).removesuffix(" |")
            + " | "
            + row(cell(one.clock[name]), f"{equal:.2g}").removeprefix("| ")
        )
    yield ""
    yield from prose(f"*off at equal updates*: over that of {STANDARD}, where the run with fewer updates ended.")


def _figure(measured: Sequence[Measured]) -> Figure:
    figure = Figure(figsize=(3.8 * len(measured), 6), layout="constrained", dpi=130)
    panels = figure.subplots(2, len(measured), squeeze=False)
    for one, (by_updates, by_seconds) in zip(measured, panels.T, strict=True):
        draw(by_updates, one.design, lambda point: point.updates, one.optimum.difference)
        draw(by_seconds, one.design, lambda point: point.seconds, one.optimum.difference)
        by_updates.set(title=f"{one.data.name}, L-D", xlabel="updates a row")
        by_seconds.set(xlabel="processor time (s)")
        for axes in (by_updates, by_seconds):
            axes.set(ylabel="(P - P*) / P*")
    one_legend(figure, panels.ravel(), 3)
    return figure


def _case(one: Measured, name: str) -> Case:
    """Whether it is worse than the standard at as many updates."""
    ratio = ratio_at_equal_updates(one.design, name, one.optimum)
    holds = None if _are_close(one, [STANDARD, name]) else is_more(ratio)
    return Case(one.data.name, holds, f"{name}: {ratio:.2g} times as far off at equal updates")


def _growth(one: Measured) -> Case:
    """Whether the distance grows with the number of blocks."""
    names = {4: "4 blocks", BLOCKS: STANDARD, **{blocks: f"{blocks} blocks" for blocks in MORE_BLOCKS[1:]}}
    ratios = [ratio_at_equal_updates(one.design, name, one.optimum) for name in names.values()]
    figures = ", ".join(f"{blocks}: {ratio:.2g}" for blocks, ratio in zip(names, ratios, strict=True))
    holds = None if _are_close(one, names.values()) else ratios == sorted(ratios)
    return Case(one.data.name, holds, f"off over that of {BLOCKS} blocks: {figures}")


def _are_close(one: Measured, names: Iterable[str]) -> bool:
    """Whether some of these runs ended too near the optimum for what is known of it."""
    return any(one.optimum.difference(one.design[name][-1]) <= 10 * one.optimum.doubt for name in names)


def ratio_at_equal_updates(design: Mapping[str, Sequence], name: str, optimum: Optimum) -> float:
    """How much further off the run is than the standard one, where the one that made fewer updates ended."""
    pair = design[name], design[STANDARD]
    updates = min(points[-1].updates for points in pair)
    theirs, ours = (optimum.difference(next(p for p in points if p.updates >= updates)) for points in pair)
    return theirs / ours
