"""Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (ICPRAM 2019), and what they make it faster with.

Their claims: looking the degradation up instead of searching for it saves up to 65% of merging and 44% of the whole;
looking it up for 59 random candidates saves 45% of the whole (SUSY); adaptive coordinate frequencies bring all that is
saved to more than 50% (COVTYPE).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench import jobs
from tests.bench.machines.data import PARAMETERS, Problem, problem
from tests.bench.papers.bsca_runs import (
    BUDGET,
    Epoch,
    costs_to,
    epochs_kept,
    is_less,
    is_less_accurate,
    level_of,
    listed,
    saving,
    warm_up,
)
from tests.bench.papers.figures import STYLES, draw_seeds, one_legend, panels_of, plain, save
from tests.bench.papers.runs import MANY, is_wanted
from tests.bench.papers.verdict import PAIRED, Case, verdict
from tests.bench.report import cell, header, prose, row, spread

# What the paper says is saved at most.
LOOKUP_OF_MERGING, LOOKUP_OF_ALL, BOTH_OF_ALL, ACF_OF_ALL = 0.65, 0.44, 0.45, 0.5
LOSS = 0.005  # of accuracy, for a few candidates
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


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, Gaussian kernel, budget {BUDGET}, {EPOCHS} epochs, one thread, all rows in memory; "
        f"seeds: {MANY}; medians ± half their range. C and gamma: the best of a grid by LIBSVM's cross-validation on "
        "4,000 rows (`python -m tests.bench.machines.choose`), of a9a LIBSVM's on all rows. *golden*: each candidate's "
        "degradation by golden section search to 0.01, as in the authors' program, *lookup*: from a table; "
        "*all*: candidates of the same sign, *59*: so "
        "many of them at random; *ACF*: rows visited in adaptive frequencies, by accumulators. *seconds*: "
        "of processor time; *merging*: share of it, *a merge*: microseconds. *saved*: of the seconds, against golden, "
        "all. *P*: over all rows, after the last epoch; *degradation*: |...|^2 lost by merging, all in all, over the "
        "number of merges. The paper's sets SUSY and COVTYPE are not here. "
        f"{PAIRED.capitalize()}; errors "
        "that differ by no more than the root of their number are undecided."
    )
    measured = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), list(WAYS.values()))
        for name in filter(is_wanted, PARAMETERS):
            own = problem(name)
            if own is None:
                yield from prose(f"{name}: not available.")
                continue
            measured.append(_measure(Path(directory), own))
            yield from _table(measured[-1])
    if not measured:
        return
    yield save(_figure(measured), "bsca")
    yield ""
    yield from _savings(measured)
    yield from verdicts(measured)


def _measure(directory: Path, own: Problem) -> Measured:
    dataset = jobs.ingested(directory / own.name, own.X, own.y)
    found = Measured(own, {name: [] for name in WAYS})
    for seed in range(MANY):
        for name, way in WAYS.items():
            judged = range(1 if name in CURVES else EPOCHS, EPOCHS + 1)
            found.runs[name].append(epochs_kept("bsca", (name, seed), own, dataset, EPOCHS, seed, judged, **way))
    return found


def _table(one: Measured) -> Iterator[str]:
    yield f"### {one.data.name}"
    yield ""
    yield from prose(f"{one.data.about}.")
    yield from header(
        "way", "seconds", "merging", "a merge, us", "merges a visit", "saved", "P", "accuracy", "degradation"
    )
    for way, runs in one.runs.items():
        visits = len(one.data.y) * median(one.last(way, "visits"))
        yield row(
            way,
            spread(one.last(way, "seconds")),
            spread(one.last(way, "merging_share"), ".1%"),
            spread(one.last(way, "merge_microseconds")),
            f"{median(one.last(way, 'merges')) / visits:.2f}",
            "" if way == GOLDEN else f"{one.saved('seconds', way):.0%}",
            spread(one.last(way, "primal"), ".5g"),
            spread(one.last(way, "accuracy"), ".2%"),
            spread([run[-1].degradation / max(run[-1].merges, 1) for run in runs], ".2g"),
        )
    yield ""


def _savings(measured: Sequence[Measured]) -> Iterator[str]:
    yield "### ACF against uniform visits, both lookup, 59"
    yield ""
    yield from prose(
        f"What ACF saves until P is what all uniform runs had after {', '.join(map(str, LEVELS))} epochs (where they "
        "had it sooner, that counts): visits a row and seconds, of the medians; *-*: not there in most runs."
    )
    columns = [f"{what} to {level}" for level in LEVELS for what in ("visits saved", "seconds saved")]
    yield from header("data", *columns)
    for one in measured:
        cells = [acf_saves(one, level, what) for level in LEVELS for what in ("visits", "seconds")]
        yield row(one.data.name, *(cell(found, ".0%") for found in cells))
    yield ""


def verdicts(measured: Sequence[Measured]) -> Iterator[str]:
    """A claim each for the table, the random candidates and ACF; advice after the last."""
    yield from verdict(
        f"a table instead of a search saves up to {LOOKUP_OF_MERGING:.0%} of merging and {LOOKUP_OF_ALL:.0%} of the "
        "whole, at no loss of accuracy.",
        [
            _most(measured, "merging_seconds", "lookup, all", LOOKUP_OF_MERGING),
            _most(measured, "seconds", "lookup, all", LOOKUP_OF_ALL),
            *(_saves(one, "lookup, all") for one in measured),
        ],
    )
    yield from verdict(
        f"a table and 59 candidates at random save up to {BOTH_OF_ALL:.0%} of the whole, at hardly any loss of "
        f"accuracy (here: at most {LOSS:.1%}).",
        [_most(measured, "seconds", LOOKUP, BOTH_OF_ALL), *(_saves(one, LOOKUP, LOSS) for one in measured)],
    )
    yield from verdict(
        "adaptive frequencies save time beside that (here: until P is what uniform visits have after "
        f"{LEVELS[-1]} epochs), all of it together more than {ACF_OF_ALL:.0%}.",
        [_most_of_all(measured), *map(_acf, measured)],
        _advice(measured),
    )


def _most(measured: Sequence[Measured], what: str, way: str, paper: float) -> Case:
    """The most that is saved on any set, against the paper's."""
    best = max(measured, key=lambda one: one.saved(what, way))
    saved = best.saved_by_seed(what, way)
    where = "most of merging" if what == "merging_seconds" else "most of the whole"
    return Case(where, is_less([paper] * len(saved), saved), f"{best.saved(what, way):.0%}, {best.data.name}")


def _saves(one: Measured, way: str, allowed: float = 0.0) -> Case:
    """Holds: it is faster, and not by more than `allowed` less accurate."""
    is_faster = is_less(one.last(way, "seconds"), one.last(GOLDEN, "seconds"))
    ours, golden = one.last(way, "accuracy"), one.last(GOLDEN, "accuracy")
    is_worse = is_less_accurate(ours, golden, len(one.data.y_test), allowed)
    share = median(one.last(way, "merging_share"))
    figures = (
        f"{one.saved('seconds', way):.0%} of the whole, {one.saved('merging_seconds', way):.0%} of merging, which then "
        f"takes {share:.0%}; accuracy {100 * (median(ours) - median(golden)):+.2f} points"
    )
    return Case(one.data.name, False if is_worse else is_faster, figures)


def _acf(one: Measured) -> Case:
    """Holds: it is there sooner, in seconds."""
    uniform, adaptive = (one.runs[way] for way in CURVES)
    level = level_of(uniform, LEVELS[-1])
    holds = is_less(costs_to(adaptive, level, "seconds"), costs_to(uniform, level, "seconds"))
    return Case(one.data.name, holds, f"{cell(acf_saves(one, LEVELS[-1], 'seconds'), '.0%')} of the seconds")


def _most_of_all(measured: Sequence[Measured]) -> Case:
    """The most that table, candidates and frequencies save together."""
    best = max(measured, key=lambda one: median(_of_all(one)))
    saved = _of_all(best)
    if median(saved) == -math.inf:
        return Case("most of the whole", False, "never there")
    return Case(
        "most of the whole", is_less([ACF_OF_ALL] * len(saved), saved), f"{median(saved):.0%}, {best.data.name}"
    )


def _of_all(one: Measured) -> list[float]:
    """Share of each seed's seconds; -inf: P was never there."""
    uniform, adaptive = (costs_to(one.runs[way], level_of(one.runs[LOOKUP], LEVELS[-1]), "seconds") for way in CURVES)
    saved = one.saved_by_seed("seconds", LOOKUP)
    return [1 - (1 - share) * acf / plain for share, acf, plain in zip(saved, adaptive, uniform, strict=True)]


def _advice(measured: Sequence[Measured]) -> str:
    both = [one.saved("seconds", LOOKUP) for one in measured]
    acf = [(one.data.name, _acf(one).holds) for one in measured]
    sooner, later = ([name for name, each in acf if each is holds] for holds in (True, False))
    return (
        f'the defaults, `merge: "lookup"` and `candidates: 59`, save {min(both):.0%} to {max(both):.0%} of the time '
        f'against `"golden"` and all candidates. `selection: "adaptive"` was there clearly sooner on {listed(sooner)}, '
        f"clearly later, or never, on {listed(later)}: "
        + ("try it on data like those." if sooner else "leave it at `uniform`.")
    )


def _figure(measured: Sequence[Measured]) -> Figure:
    figure, panels = panels_of(3, len(measured), (3.2 * max(len(measured), 2), 7.6))
    for one, (objective, accuracy, seconds) in zip(measured, panels.T, strict=True):
        for style, way in zip(STYLES, CURVES, strict=False):
            runs, label = one.runs[way], "uniform" if way == LOOKUP else "ACF"
            visits = np.median([[epoch.visits for epoch in run] for run in runs], axis=0)
            for axes, what, factor in ((objective, "primal", 1.0), (accuracy, "accuracy", 100.0)):
                values = factor * np.array([[getattr(epoch, what) for epoch in run] for run in runs])
                draw_seeds(axes, visits, values, label, style)
        objective.set(title=one.data.name, ylabel="P", yscale="log")
        accuracy.set(xlabel="visits a row", ylabel="accuracy, held out (%)")
        for axes in (objective, accuracy):
            plain(axes)
        _bars(seconds, one)
    one_legend(figure, panels.ravel(), len(CURVES) + 2)
    return figure


def _bars(axes: Axes, one: Measured) -> None:
    """Where the time goes, by way: merging, and all else."""
    merging = [median(one.last(way, "merging_seconds")) for way in WAYS]
    rest = [median(one.last(way, "seconds")) - part for way, part in zip(WAYS, merging, strict=True)]
    places = range(len(WAYS))
    axes.barh(places, rest, color="0.75", label="all but merging")
    axes.barh(places, merging, left=rest, color="0.25", label="merging")
    axes.set_yticks(places, list(WAYS), fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="processor time (s)")
    axes.tick_params(labelsize=7)
