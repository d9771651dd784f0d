"""Glasmachers, Dogan, "Accelerated linear SVM training with adaptive variable selection frequencies" (2013).

Its claim: with adaptive frequencies, update steps to the same stopping rule are several times fewer than LIBLINEAR's
with shrinking where C is large (rcv1, news20, url, kdd), so that a whole grid of C is done sooner.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes

from tests.bench.papers.avsf_runs import (
    COSTS,
    LARGE,
    LIMIT,
    SETS,
    TOLERANCES,
    TRANSCRIBED,
    WAYS,
    Measured,
    Runs,
    cost_ratio,
    grid_ratio,
    transcription,
)  # fmt: skip
from tests.bench.papers.figures import STYLES, one_legend, panels_of, plain, save
from tests.bench.papers.resident import as_cached
from tests.bench.papers.runs import TIMES, seeds
from tests.bench.papers.verdict import Part, grouped, verdict
from tests.bench.report import cell, header, prose, row

FEWER_STEPS = (
    "AVSF takes fewer steps than LIBLINEAR where C is large (the paper: up to 30 times on news20, C = 1000; here: "
    f"C >= {LARGE:g})."
)
WHOLE_GRID = "AVSF takes less time than LIBLINEAR for a whole grid of C."
_LABELS = {"dcd": "dcd with shrinking", "accumulators": "AVSF, accumulators", "paper": "AVSF, algorithm 4"}


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, sum form, no bias, all rows in memory. *dcd* is LIBLINEAR's loop (Algorithm 2) without its "
        "cap on passes; AVSF is Algorithm 3, visits shared out by accumulators or by Algorithm 4; *transcribed*: "
        f"Algorithms 3 to 5 as a plain program. Steps are gradients computed, those of rows just shrunk included, in "
        f"units of the number of rows, until M+ - M- is at most eps in a sweep over all rows. Means of {seeds()}. "
        "Of a run whose first seed is given up there is no other seed; *transcribed* has one seed, and none where all "
        "others are given up. "
        f"> : given up after {TIMES:g} times the seconds of the fastest that ended, or after {LIMIT:g} s where none "
        "did; *gap* is the "
        "relative duality gap at the end, the largest of the seeds. Seconds are CPU seconds; ratios are dcd's to "
        "accumulators'. Free rows are those of dcd in the end. news20: classes 1 to 10 against 11 to 20; news20-1: "
        "class 1 against the rest; both log(1 + count), rows of length 1."
    )
    sets = []
    for name, load in SETS.items():
        if (data := load()) is None:
            yield from prose(f"{name}: not available.")
        else:
            sets.append(Measured(name, data[0].shape[0], as_cached(name, *data), transcription(name, data)))
    for one in sets:
        one.measure()
    yield from _table(sets)
    yield from _grids(sets)
    yield _plot(sets)
    yield ""
    yield from verdict(FEWER_STEPS, grouped(_steps(sets)))
    yield from verdict(WHOLE_GRID, grouped(_whole_grids(sets)), _advice(sets))


def _table(sets: list[Measured]) -> Iterator[str]:
    names = [name for way in _LABELS.values() for name in (way, "seconds", "gap")]
    yield from header("data, eps", "C", *names, "transcribed", "steps, dcd / AVSF", "seconds, dcd / AVSF", "free rows")
    for one in sets:
        for tolerance in TOLERANCES:
            for C in COSTS:
                ran = [one.found[tolerance, C, way] for way in WAYS]
                cells = [text for runs in ran for text in _cells(runs, one.n_rows)]
                ratios = (cost_ratio(ran[0], ran[1], what)[0] for what in ("visits", "seconds"))
                printed = _cells(one.found[tolerance, C, TRANSCRIBED], one.n_rows)[0]
                free = f"{ran[0].runs[0].free_rows / one.n_rows:.2%}"
                yield row(f"{one.name}, {tolerance:g}", f"{C:g}", *cells, printed, *ratios, free)
    yield ""


def _cells(runs: Runs, n_rows: int) -> tuple[str, str, str]:
    if not runs.runs:
        return "-", "-", "-"
    above = "" if runs.converged else "> "
    return f"{above}{cell(runs.visits / n_rows)}", cell(runs.seconds, ".2g"), f"{runs.relative_gap:.0e}"


def _grids(sets: list[Measured]) -> Iterator[str]:
    yield "### A whole grid of C"
    yield ""
    yield from prose(
        f"All of C = {COSTS[0]:g} to {COSTS[-1]:g}, one after the other from zero. Ratios are dcd's to AVSF's."
    )
    yield from header("data, eps", *(f"{label}, s" for label in _LABELS.values()), "steps, ratio", "seconds, ratio")
    for one in sets:
        for tolerance in TOLERANCES:
            grids = {way: [one.found[tolerance, C, way] for C in COSTS] for way in WAYS}
            seconds = [
                ("" if all(runs.converged for runs in grid) else "> ") + cell(sum(runs.seconds for runs in grid), ".2g")
                for grid in grids.values()
            ]
            ratios = (grid_ratio(one, tolerance, what)[0] for what in ("visits", "seconds"))
            yield row(f"{one.name}, {tolerance:g}", *seconds, *ratios)
    yield ""


def _plot(sets: list[Measured]) -> str:
    figure, panels = panels_of(len(TOLERANCES), len(sets), (2.6 * len(sets), 5.6), sharex=True)
    for line, tolerance in zip(panels, TOLERANCES, strict=True):
        for axes, one in zip(line, sets, strict=True):
            _plot_steps(axes, one, tolerance)
    one_legend(figure, panels[0, :1], len(WAYS))
    figure.suptitle("Steps to M+ - M- <= eps; hollow: given up there", fontsize=11)
    return save(figure, "avsf")


def _plot_steps(axes: Axes, one: Measured, tolerance: float) -> None:
    """Hollow marks: given up, a lower bound. A band is the range of the seeds."""
    for style, (way, label) in zip(STYLES, _LABELS.items(), strict=False):
        ran = [one.found[tolerance, C, way] for C in COSTS]
        steps = np.array([runs.visits / one.n_rows for runs in ran])
        each = [[ended.visits / one.n_rows for ended in runs.runs] for runs in ran]
        axes.plot(COSTS, steps, label=label, markersize=4, **style)  # type: ignore[arg-type]
        axes.fill_between(COSTS, list(map(min, each)), list(map(max, each)), color=style["color"], alpha=0.15)
        lost = np.array([not runs.converged for runs in ran])
        hollow = {**style, "linestyle": "", "markerfacecolor": "white", "markersize": 4}
        axes.plot(np.array(COSTS)[lost], steps[lost], **hollow)  # type: ignore[arg-type]
    axes.set(xscale="log", yscale="log", xlabel="C", ylabel="steps / rows")
    axes.set_title(f"{one.name}, eps = {tolerance:g}", fontsize=10)
    plain(axes)


def _steps(sets: list[Measured]) -> Iterator[Part]:
    """Steps at each large C; all seeds must agree."""
    for one in sets:
        for tolerance in TOLERANCES:
            for C in (C for C in COSTS if C >= LARGE):
                ran = (one.found[tolerance, C, way] for way in ("dcd", "accumulators"))
                yield _part(f"{one.name} to {tolerance:g}, C =", f"{C:g}", cost_ratio(*ran, "visits"))


def _whole_grids(sets: list[Measured]) -> Iterator[Part]:
    for one in sets:
        for tolerance in TOLERANCES:
            yield _part(f"{one.name} to", f"{tolerance:g}", grid_ratio(one, tolerance, "seconds"))


def _part(group: str, at: str, found: tuple[str, bool | None]) -> Part:
    """The smaller the ratio, the worse; a bound counts as its number."""
    number = found[0].lstrip("<> ")
    off = 0.0 if number == "-" else -float(number)
    return Part(group, at, found[1], off, f"ratio {found[0]}")


def _advice(sets: list[Measured]) -> str:
    ratios = [
        cost_ratio(one.found[TOLERANCES[0], C, "dcd"], one.found[TOLERANCES[0], C, "accumulators"], "seconds")[1]
        for one in sets
        for C in COSTS
    ]
    none = sum(not any(one.found[TOLERANCES[0], C, way].converged for way in WAYS) for one in sets for C in COSTS)
    return (
        f"to {TOLERANCES[0]:g} AVSF was done sooner than dcd on {ratios.count(True)} of {len(ratios)} problems, later "
        f"on {ratios.count(False)}; {none} neither ended in time: those are for the default solver."
    )
