"""Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in memory" (KDD 2010).

Its claims: block minimization with few rounds a block is near the solution after about four passes and subgradient
steps a block (P-B) are not (Figure 2); rows have to be assigned to blocks at random (Figure 3); the order of the blocks
is better changed in every pass; large blocks are better than small ones; compressed blocks save time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from tests.bench.papers.compression import compression
from tests.bench.papers.data import Data, cache_for, read_in, sorted_by_class
from tests.bench.papers.figures import draw, one_legend, save
from tests.bench.papers.trace import (
    FEWEST_PASSES,
    Optimum,
    Point,
    after,
    optimum_of,
    reference,
    seconds_to,
    trace,
    warm_up,
)  # fmt: skip
from tests.bench.report import cell, header, prose, row

# Rows of imdb and the generated ones are of length 1, as the paper's are; |x|^2 is near 100 on mnist8.
CS = {"imdb": 1.0, "mnist8": 0.01, "generated": 1.0}
DESIGN = ("imdb", "mnist8")
BLOCKS = 10
MORE_BLOCKS = (4, 40)
PASSES = 30  # the paper's
MOST_SECONDS = 3.0  # of processor time a run
REFERENCE_SECONDS = 6.0
FEW = FEWEST_PASSES  # after which the paper finds all but P-B good enough
NEAR = 1e-2
METHODS: dict[str, dict[str, object]] = {
    "L-1": {"solver": "bm", "inner_rounds": 1},
    "L-10": {"solver": "bm", "inner_rounds": 10},
    "L-20": {"solver": "bm", "inner_rounds": 20},
    "L-D": {"solver": "bm", "inner_rounds": None},
    "P-B": {"solver": "pegasos", "update": "block"},
    "P-I": {"solver": "pegasos", "update": "row"},
    "dcd, in memory": {"solver": "dcd"},
}
STANDARD = f"L-10, {BLOCKS} blocks"
SORTED, FIXED = "sorted by class, no split", "fixed order of blocks"

Traces = dict[str, list[Point]]


@dataclass(frozen=True)
class Measured:
    """All runs on a set; `design` are those of L-10 with something changed, for some sets."""

    data: Data
    optimum: Optimum
    methods: Traces
    design: Traces


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, {BLOCKS} blocks, of which the cache holds one; *dcd* holds all rows. A run is {PASSES} "
        f"passes (dcd: more) or {MOST_SECONDS:g} s of processor time, but {FEW} passes at least. Seconds "
        "count reading and decoding but no waiting for the disk; the machine was busy with other work, so they are "
        "upper bounds, and updates a row, passes and bytes are what to compare. *off*: (P - P*) / P* at w. One run "
        "each, they are reproducible."
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [_way(way) for way in METHODS.values()])
        for name in CS:
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
            else:
                measured.append(_measure(Path(directory), data))
                yield from _tables(measured[-1])
        yield save(_methods_figure(measured), "bm")
        yield ""
        yield save(_design_figure([one for one in measured if one.design]), "bm-design")
        yield ""
        yield from compression([one.data for one in measured])
    yield from prose(_verdict(measured))


def _way(way: dict[str, object], **changes: object) -> dict[str, object]:
    """Fields of a job: those of a method, and blocks if it has any."""
    return {**way, **({} if way["solver"] == "dcd" else {"n_blocks": BLOCKS}), **changes}


def _measure(directory: Path, data: Data) -> Measured:
    def runs(dataset: Path | None = None, **way: object) -> list[Point]:
        blocks = way.get("n_blocks")
        cache_bytes = cache_for(data.manifest, blocks) if isinstance(blocks, int) else data.whole
        passes = PASSES if blocks else 10_000
        return trace(data, CS[data.name], cache_bytes, passes, MOST_SECONDS, dataset=dataset, **way)

    methods = {name: runs(**_way(way)) for name, way in METHODS.items()}
    design: Traces = {}
    if data.name in DESIGN:
        way = _way(METHODS["L-10"])
        design = {
            STANDARD: methods["L-10"],
            SORTED: runs(sorted_by_class(directory, data), **way),
            FIXED: runs(**{**way, "permute_blocks": False}),
            **{f"{blocks} blocks": runs(**{**way, "n_blocks": blocks}) for blocks in MORE_BLOCKS},
        }
    known = reference(data, CS[data.name], REFERENCE_SECONDS)
    return Measured(data, optimum_of(known, [*methods.values(), *design.values()]), methods, design)


def _tables(one: Measured) -> Iterator[str]:
    data = one.data
    yield f"### {data.name}: {data.manifest.n_rows:,} rows, {data.manifest.nnz:,} non-zeros, C = {CS[data.name]:g}"
    yield ""
    yield from prose(f"P* = {one.optimum.value:.9g}, known to {one.optimum.doubt:.0e}.")
    yield from header(
        "method", f"off after {FEW} passes", "test accuracy", "updates a row", "seconds", "MB read",
        f"seconds to {NEAR:.0e}", "off in the end", "test accuracy", "passes", "updates a row", "seconds",
    )  # fmt: skip
    for name, points in {**one.methods, **one.design}.items():
        yield _line(name, points, one.optimum)
    yield ""


def _line(name: str, points: Sequence[Point], optimum: Optimum) -> str:
    few, last = after(points, FEW), points[-1]
    return row(
        name,
        f"{optimum.difference(few):.1e}",
        _percent(few.accuracy),
        f"{few.updates:.0f}",
        f"{few.seconds:.2f}",
        f"{few.read_bytes / 1e6:.0f}",
        cell(seconds_to(points, optimum, NEAR), ".2f"),
        f"{optimum.difference(last):.1e}",
        _percent(last.accuracy),
        last.passes,
        f"{last.updates:.0f}",
        f"{last.seconds:.1f}",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _methods_figure(measured: Sequence[Measured]) -> Figure:
    figure = Figure(figsize=(3.4 * len(measured), 8), layout="constrained", dpi=130)
    panels = figure.subplots(3, len(measured), squeeze=False)
    for one, (by_updates, by_seconds, accuracy) in zip(measured, panels.T, strict=True):
        difference = one.optimum.difference
        draw(by_updates, one.methods, lambda point: point.updates, difference)
        draw(by_seconds, one.methods, lambda point: point.seconds, difference)
        draw(accuracy, one.methods, lambda point: point.seconds, lambda point: 100 * (point.accuracy or 0.0))
        best = 100 * max(point.accuracy or 0.0 for points in one.methods.values() for point in points)
        by_updates.set(
            title=f"{one.data.name}, C = {CS[one.data.name]:g}",
            xlabel="updates a row",
            ylabel="(P - P*) / P*",
        )
        by_seconds.set(xlabel="processor time (s)", ylabel="(P - P*) / P*")
        accuracy.set(
            xlabel="processor time (s)", ylabel="test accuracy (%)", yscale="linear", ylim=(best - 6, best + 0.5)
        )
    one_legend(figure, panels.ravel(), len(METHODS))
    return figure


def _design_figure(measured: Sequence[Measured]) -> Figure:
    figure = Figure(figsize=(3.8 * max(1, len(measured)), 6), layout="constrained", dpi=130)
    panels = figure.subplots(2, max(1, len(measured)), squeeze=False)
    for one, (by_updates, by_seconds) in zip(measured, panels.T, strict=False):
        draw(by_updates, one.design, lambda point: point.updates, one.optimum.difference)
        draw(by_seconds, one.design, lambda point: point.seconds, one.optimum.difference)
        by_updates.set(title=f"{one.data.name}, L-10", xlabel="updates a row")
        by_seconds.set(xlabel="processor time (s)")
        for axes in (by_updates, by_seconds):
            axes.set(ylabel="(P - P*) / P*")
    one_legend(figure, panels.ravel(), 3)
    return figure


def _verdict(measured: Sequence[Measured]) -> str:
    """One honest sentence."""
    runs = [(one, points) for one in measured for name, points in one.methods.items() if name.startswith("L-")]
    accurate = [_is_accurate(one, points) for one, points in runs]
    near = [one.optimum.difference(after(points, FEW)) <= NEAR for one, points in runs]
    steps_a_block = [_is_accurate(one, one.methods["P-B"]) for one in measured]
    changed = {
        name: _ratios(measured, name) for name in (SORTED, FIXED, *(f"{blocks} blocks" for blocks in MORE_BLOCKS))
    }
    few, many = (changed[f"{blocks} blocks"] for blocks in MORE_BLOCKS)
    worse = all(ratio > 1 for name in (SORTED, FIXED) for ratio in changed[name])
    held = all(accurate) and not any(steps_a_block) and worse and all(map(float.__lt__, few, many))
    found = "; ".join(f"{name}: {' and '.join(f'{ratio:.2g}' for ratio in ratios)}" for name, ratios in changed.items())
    return (
        f"**Reproduced{'' if held else ' in part'}**: after {FEW} passes {sum(accurate)} of {len(runs)} runs of L-1 to "
        f"L-D were within half a point of the best run's test accuracy ({sum(near)} within {NEAR:.0%} of the optimum), "
        f"and {sum(steps_a_block)} of {len(measured)} of P-B; at as many updates, L-10 stood so many times as far from "
        f"the optimum as with {BLOCKS} blocks split at random and visited in changing order, on "
        f"{' and '.join(one.data.name for one in measured if one.design)}: {found}; that compression saves time is not "
        "testable here, as nothing is stored without it, and follows from the table only for slow disks."
    )


def _is_accurate(one: Measured, points: Sequence[Point]) -> bool:
    """Whether it told test rows apart as well as the run that came nearest to the optimum in the end, or almost."""
    best = min((point for run_ in one.methods.values() for point in run_), key=lambda point: point.primal)
    return (after(points, FEW).accuracy or 0.0) >= (best.accuracy or 0.0) - 0.005


def _ratios(measured: Sequence[Measured], name: str) -> list[float]:
    """What a change of the design did, on each set."""
    return [ratio_at_equal_updates(one.design, name, one.optimum) for one in measured if one.design]


def ratio_at_equal_updates(design: Mapping[str, Sequence[Point]], name: str, optimum: Optimum) -> float:
    """How much further off the run is than the standard one, where the one that made fewer updates ended."""
    pair = design[name], design[STANDARD]
    updates = min(points[-1].updates for points in pair)
    theirs, ours = (optimum.difference(next(p for p in points if p.updates >= updates)) for points in pair)
    return theirs / ours
