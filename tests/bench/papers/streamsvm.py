"""Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops" (KDD 2012).

Its claims: StreamSVM is nearer the optimum at any time than selective and plain block minimization with as much memory
(Figures 2 to 5), for C from 1e-4 to 1e3, and a larger cache makes it faster. Ours: so is what we made of it,
`streamsvm`, and it is never behind selective block minimization at equal cache and updates after the second pass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.features import splice
from tests.bench.papers.data import read_in
from tests.bench.papers.figures import save
from tests.bench.papers.streamsvm_figures import cache_figure, difference_figure, time_figure
from tests.bench.papers.streamsvm_runs import (
    BM,
    CONTENDERS,
    CS,
    LEVELS,
    MOST_SECONDS,
    PAPER,
    PASSES,
    SBM,
    SCORE,
    UPDATES,
    Measured,
    lags,
    measure,
)  # fmt: skip
from tests.bench.papers.trace import FEWEST_PASSES, after, seconds_to, updates_to, warm_up
from tests.bench.report import cell, header, prose, row

NAMES = ("a9a", "imdb", "mnist8", "skin", "generated")


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, a tenth of the data cached, `pace` fixed. Every contender makes about {UPDATES} updates "
        f"a row and pass: StreamSVM by `updates_per_row`, SBM in {UPDATES // 2} rounds over a block and as many kept "
        f"rows, BM in {UPDATES} rounds over a block. A run is {PASSES} passes or {MOST_SECONDS:g} s of processor time, "
        f"but {FEWEST_PASSES} passes at least. Seconds count reading, decoding and training but no waiting for the "
        "disk, and gain nothing from doing them at once; the machine was busy with other work, so they are upper "
        "bounds, and updates a row are what to compare. One run each, they are reproducible."
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), CONTENDERS.values())
        for name in NAMES:
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
            else:
                measured.append(measure(replace(data, test=None)))
    yield from _levels_table(measured)
    yield save(difference_figure(measured), "streamsvm")
    yield ""
    yield save(time_figure(measured), "streamsvm-time")
    yield ""
    yield from _bar_table(measured)
    yield from _clock_table([one for one in measured if one.clock])
    yield from _cache_table([one for one in measured if one.cached])
    yield save(cache_figure([one for one in measured if one.cached]), "streamsvm-cache")
    yield ""
    yield from prose(_verdict(measured))
    yield "### Splice sites: features that are never stored"
    yield ""
    yield from prose(
        "The paper's largest experiment (dna, section 4) trains on features of strings that are made anew whenever a "
        "row is visited. Its data are not to be had; these are acceptor sites of C. elegans."
    )
    yield from splice.run()


def _levels_table(measured: Sequence[Measured]) -> Iterator[str]:
    yield "### Updates a row, and seconds of processor time, to a relative difference (P - P*) / P*"
    yield ""
    yield from header(
        "data", "C", "P*, known to",
        *(f"{name}: {what} to {level:.0e}" for name in CONTENDERS for level in LEVELS for what in ("updates", "s")),
        words=1,
    )  # fmt: skip
    for one in measured:
        for C, optimum in one.optima.items():
            cells = []
            for points in one.runs[C].values():
                for level in LEVELS:
                    cells += [cell(updates_to(points, optimum, level)), cell(seconds_to(points, optimum, level), ".2g")]
            yield row(one.data.name + one.remark, f"{C:g}", f"{optimum.doubt:.0e}", *cells)
    yield ""


def _cache_table(measured: Sequence[Measured]) -> Iterator[str]:
    yield f"### The cache: {SCORE}, C = 1"
    yield ""
    yield from header(
        "data", "cache", *(f"updates a row to {level:.0e}" for level in LEVELS), "passes", "MB read", "off in the end"
    )
    for one in measured:
        optimum = one.cached_optimum
        for name, points in one.cached.items():
            levels = [cell(updates_to(points, optimum, level)) for level in LEVELS]
            end = points[-1]
            numbers = end.passes, f"{end.read_bytes / 1e6:.0f}", f"{optimum.difference(end):.1e}"
            yield row(one.data.name, name, *levels, *numbers)
    yield ""


def _clock_table(measured: Sequence[Measured]) -> Iterator[str]:
    yield "### By the clock: reader and trainer as two processes, C = 1"
    yield ""
    yield from prose("Seconds from the trainer's start to the end of the pass that got there, on a busy machine.")
    yield from header("data", "contender", *(f"to {level:.0e}" for level in LEVELS), words=2)
    for one in measured:
        for name, seconds in one.clock.items():
            yield row(one.data.name, name, *(cell(found) for found in seconds))
    yield ""


def _bar_table(measured: Sequence[Measured]) -> Iterator[str]:
    yield f"### {SCORE} at equal cache and updates, after the second pass"
    yield ""
    yield from prose(
        "Checkpoints compared, and at how many it is behind; *worst*: its relative difference over the other's "
        "at the checkpoint that is worst for it, behind if above 1. Differences too near the doubt about P* stay out."
    )
    others = (PAPER, SBM, BM)
    yield from header("data", "C", *(f"{what} {name}" for name in others for what in ("behind", "worst against")))
    for one in measured:
        for C, optimum in one.optima.items():
            cells = []
            for name in others:
                ratios = lags(one.runs[C][SCORE], one.runs[C][name], optimum)
                cells += [
                    f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}",
                    cell(max(ratios, default=None), ".2g"),
                ]
            yield row(one.data.name, f"{C:g}", *cells)
    yield ""


def _verdict(measured: Sequence[Measured]) -> str:
    """One honest sentence."""
    problems = [(one, C) for one in measured for C in CS]
    paper, score = (sum(_is_ahead(one, C, name) for one, C in problems) for name in (PAPER, SCORE))
    ratios = [lags(one.runs[C][SCORE], one.runs[C][SBM], one.optima[C]) for one, C in problems]
    missed = [
        f"{one.data.name} at C = {C:g}"
        for (one, C), lag in zip(problems, ratios, strict=True)
        if max(lag, default=0) > 1
    ]
    held = paper == len(problems)
    bar = f"held at all {sum(map(len, ratios))} checkpoints" if not missed else f"was missed on {', '.join(missed)}"
    return (
        f"**{'Reproduced' if held else 'Reproduced in part' if paper else 'Not reproduced'}**: after {FEWEST_PASSES} "
        f"passes StreamSVM as in the paper was at least as near the optimum as both SBM and BM with the same cache on "
        f"{paper} of {len(problems)} problems, and `streamsvm` was on {score}; the bar that it is never "
        f"behind SBM at equal updates after the second pass {bar}; the paper's own sets (20 to 63 GB), its hours of "
        "running and what it gains by reading and training at once are not testable on this machine."
    )


def _is_ahead(one: Measured, C: float, name: str) -> bool:
    """Whether it was as near the optimum as both kinds of block minimization, or nearer, after as many passes."""
    off = {other: one.optima[C].difference(after(points, FEWEST_PASSES)) for other, points in one.runs[C].items()}
    return off[name] <= min(off[SBM], off[BM])
