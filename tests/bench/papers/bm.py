"""Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in memory" (KDD 2010): the methods.

Its claim: block minimization with few rounds a block is near the solution after about four passes, and subgradient
steps a block (P-B) are not (Figure 2).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from tests.bench.papers.ball import Ball
from tests.bench.papers.bm_runs import Runs, columns, key_of, line, optimum, runs_of
from tests.bench.papers.data import Data, cache_for, read_in
from tests.bench.papers.figures import draw_runs, one_legend, panels_of, save
from tests.bench.papers.runs import SEEDS, is_wanted, limit, seeds
from tests.bench.papers.trace import FEWEST_PASSES, Optimum, Point, after, seconds_to, warm_up
from tests.bench.papers.verdict import PAIRED, Case, is_above, verdict
from tests.bench.report import header, prose, spread

# Rows of imdb and the generated ones are of length 1, as the paper's are; |x|^2 is near 100 on mnist8.
CS = {"imdb": 1.0, "mnist8": 0.01, "generated": 1.0}
BLOCKS = 10
PASSES = 30  # the paper's
GENERATED = "60MB"  # of text, unless SIZE says otherwise
FEW = FEWEST_PASSES  # after which the paper finds all but P-B good enough
NEAR = 1e-2
IN_MEMORY = "dcd, in memory"
METHODS: dict[str, dict[str, object]] = {
    "L-1": {"solver": "bm", "inner_rounds": 1},
    "L-10": {"solver": "bm", "inner_rounds": 10},
    "L-20": {"solver": "bm", "inner_rounds": 20},
    "L-D": {"solver": "bm", "inner_rounds": None},
    "P-B": {"solver": "pegasos", "update": "block"},
    "P-I": {"solver": "pegasos", "update": "row"},
    IN_MEMORY: {"solver": "dcd"},
}
HALF_A_POINT = 0.005
DUAL = tuple(name for name in METHODS if name.startswith("L-"))
ACCURATE = (
    f"after {FEW} passes every kind of block minimization is as accurate as the best run is in the end (here: to half "
    "a point)."
)
ONE_STEP = f"with one subgradient step a block (P-B) {FEW} passes are not enough for that."

LIMIT = limit("bm")


@dataclass(frozen=True)
class Measured:
    """All runs on a set."""

    data: Data
    optimum: Optimum
    methods: dict[str, Runs]


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, {BLOCKS} blocks, of which the cache holds one, split at random once; another order of "
        f"the blocks and of the rows in them for each seed, {seeds()}, medians ± half the range. A run is {PASSES} "
        f"passes, as in the paper, or {LIMIT:g} s. *{IN_MEMORY}*: LIBLINEAR's method with all rows in the cache, to a "
        "relative gap of 1e-6; the paper has LIBLINEAR itself there. L-D: until M+ - M- is at most 0.1 on the block, "
        "200 rounds at most. P-B, P-I: steps of 1 / (lambda (t + 2)), as in the authors' program. Seconds are "
        "processor time: they count reading and decoding, but neither reading the text in nor waiting for the disk. "
        f"*off*: (P - P*) / P* at w; {PAIRED}. The sets are smaller than the paper's, which did not fit in its memory."
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [way_of(way) for way in METHODS.values()])
        for name in filter(is_wanted, CS):
            data = read_in(Path(directory), name, GENERATED)
            if data is None:
                yield from prose(f"{name}: not available.")
            else:
                measured.append(_measure(data))
                yield from _tables(measured[-1])
    if not measured:
        return
    yield save(_methods_figure(measured), "bm")
    yield ""
    yield from verdict(ACCURATE, [_accurate(one) for one in measured])
    yield from verdict(ONE_STEP, [_not_accurate(one) for one in measured], _advice(measured))


def way_of(way: dict[str, object], **changes: object) -> dict[str, object]:
    """Fields of a job: those of a method, and blocks if it has any."""
    return {**way, **({} if way["solver"] == "dcd" else {"n_blocks": BLOCKS}), **changes}


def _measure(data: Data) -> Measured:
    C = CS[data.name]

    def runs(name: str) -> Runs:
        way = way_of(METHODS[name])
        has_blocks = "n_blocks" in way
        cache_bytes = cache_for(data.manifest, BLOCKS) if has_blocks else data.whole
        passes, gap = (PASSES, 0.0) if has_blocks else (100_000, 1e-6)
        return runs_of("bm", (*key_of(data), name), data, C, cache_bytes, passes, LIMIT, gap, **way)

    methods = {name: runs(name) for name in METHODS}
    return Measured(data, optimum("bm", data, C, methods.values()), methods)


def _tables(one: Measured) -> Iterator[str]:
    data = one.data
    yield f"### {data.name}: {data.manifest.n_rows:,} rows, {data.manifest.nnz:,} non-zeros, C = {CS[data.name]:g}"
    yield ""
    yield from prose(f"P* = {one.optimum.value:.9g}, known to {one.optimum.doubt:.0e}.")
    yield from header("method", *columns(FEW, NEAR))
    for name, runs in one.methods.items():
        yield line(name, runs, one.optimum, FEW, NEAR)
    yield ""
    yield from prose(_one_pass(data))


def _one_pass(data: Data) -> str:
    """Train by a ball that grows, in one pass, with the C of the others in its squared hinge loss."""
    found, began = [], 0.0
    for seed in (None, *range(SEEDS)):
        order = np.random.default_rng(seed).permutation(len(data.y))
        X, ball = data.X[order], Ball(data.X.shape[1], CS[data.name])
        ball.take(X.indptr, X.indices, X.data, data.y[order])
        if seed is None:  # has compiled it
            began = time.process_time()
        else:
            found.append(data.accuracy(ball.w))
    seconds = (time.process_time() - began) / SEEDS
    return f"A ball that grows (`ball.py`), one pass in {seconds:.2g} s: test accuracy {spread(found, '.2%')}."


def _methods_figure(measured: Sequence[Measured]) -> Figure:
    figure, panels = panels_of(3, len(measured), (3.4 * len(measured), 8))
    for one, (by_updates, by_seconds, accuracy) in zip(measured, panels.T, strict=True):
        difference = one.optimum.difference
        draw_runs(by_updates, one.methods, lambda point: point.updates, difference)
        draw_runs(by_seconds, one.methods, lambda point: point.seconds, difference)
        draw_runs(accuracy, one.methods, lambda point: point.seconds, lambda point: 100 * (point.accuracy or 0.0))
        best = 100 * max(point.accuracy or 0.0 for runs in one.methods.values() for run in runs for point in run)
        by_updates.set(
            title=f"{one.data.name}, C = {CS[one.data.name]:g}",
            xlabel="updates a row",
            ylabel="(P - P*) / P*",
        )
        by_seconds.set(xlabel="processor time (s)", ylabel="(P - P*) / P*")
        for axes in (by_updates, by_seconds):
            axes.set_ylim(bottom=1e-6)
        accuracy.set(
            xlabel="processor time (s)", ylabel="test accuracy (%)", yscale="linear", ylim=(best - 6, best + 0.5)
        )
    one_legend(figure, panels.ravel(), min(len(METHODS), 3 * len(measured)))
    return figure


def _accurate(one: Measured) -> Case:
    """Whether all kinds of block minimization are accurate after FEW passes, whatever the seed."""
    short = {name: shortfalls(one.methods[name], _best_accuracy(one)) for name in DUAL}
    worst = max(short, key=lambda name: max(short[name]))
    return Case(one.data.name, _is_near(short.values()), f"at most {100 * max(short[worst]):.2f} points short, {worst}")


def _not_accurate(one: Measured) -> Case:
    short = shortfalls(one.methods["P-B"], _best_accuracy(one))
    is_near = _is_near([short])
    figures = f"{100 * median(short):.2f} points short"
    return Case(one.data.name, None if is_near is None else not is_near, figures)


def shortfalls(runs: Runs, best: float) -> list[float]:
    """By how much the test accuracy of each run is below the best after FEW passes."""
    return [best - (after(run, FEW).accuracy or 0.0) for run in runs]


def _is_near(several: Iterable[Sequence[float]]) -> bool | None:
    """Whether all are within half a point; None: one of them is neither within nor beyond, by a test."""
    answers = {is_above(HALF_A_POINT - short for short in shorts) for shorts in several}
    return False if False in answers else None if None in answers else True


def _best_accuracy(one: Measured) -> float:
    """Test accuracy of the run that came nearest to the optimum, where it did."""
    points: list[Point] = [point for runs in one.methods.values() for run in runs for point in run]
    return min(points, key=lambda point: point.primal).accuracy or 0.0


def _advice(measured: Sequence[Measured]) -> str:
    """Which kind of block minimization needed the fewest seconds to NEAR."""
    return f"median seconds until within {NEAR:.0%} of the optimum: {'; '.join(map(_fastest, measured))}."


def _fastest(one: Measured) -> str:
    seconds = {name: _seconds(one, name) for name in METHODS}
    reached = {name: each for name in DUAL if (each := seconds[name]) < math.inf}
    name = min(reached, key=lambda each: reached[each]) if reached else None
    ours = f"{name} {reached[name]:.2g}" if name else "no block minimization"
    return f"{one.data.name}: {ours} (P-I {_told(seconds['P-I'])}, {IN_MEMORY} {_told(seconds[IN_MEMORY])})"


def _seconds(one: Measured, name: str) -> float:
    found = (seconds_to(run, one.optimum, NEAR) for run in one.methods[name])
    return median(math.inf if each is None else each for each in found)


def _told(seconds: float) -> str:
    return "never" if seconds == math.inf else f"{seconds:.2g}"
