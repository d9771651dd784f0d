"""OCAS against others by time, over a grid of C, and with more rows (Franc, Sonnenburg, ICML 2008).

Its claims: OCAS is ahead of all accurate solvers, and of stochastic gradients even early (Table 2, Figure 2); so it is
where a grid of C is tried (Table 3); its time is linear in the number of rows (Figure 3).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tests.bench.papers.data import read_in
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.ocas_runs import (
    ACCURATE,
    EXACT,
    GRADIENTS,
    MADE_FEATURES,
    OURS,
    ROWS,
    TOLERANCE,
    Problem,
    measured,
    ocas_seconds,
    of_sizes,
    warm_up,
)
from tests.bench.papers.runs import is_wanted, limit
from tests.bench.papers.verdict import Case, verdict
from tests.bench.prepared import prepare_rows
from tests.bench.report import cell, header, prose, row

LIMIT = limit("ocas-time")
SETS = ("a9a", "imdb", "mnist8", "skin", "celegans")
CS = (0.01, 1.0, 100.0)
LEVELS = (1e-1, 1e-2, 1e-3)
EARLY = 1e-1
OF_ROWS = ("made", "skin", "mnist8")
SLOPE = 1.1  # log seconds over log rows: linear, or nearly
SOONER = f"OCAS is within {EXACT:.0e} of the optimum sooner than every other accurate solver."
EARLIER = f"it is within {EARLY:.0e} sooner than stochastic gradients."
GRID = f"a grid of C takes it less time than every other accurate solver (here: to {EXACT:.0e} at each C)."
LINEAR = f"its time grows linearly with the number of rows (here: with a power of at most {SLOPE:g})."


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, sum form, no bias, all rows in memory, one thread, from zero; processor seconds of training "
        f"until F - F* is a share of F*, at most {LIMIT:g} s a run. *OCAS here*, *CPA here*: F(w_b). *libocas*: its "
        "authors' program `svmocas`, by its own clock. *LIBLINEAR*: -s 3 from scratch for each -e. *SGD*: "
        "scikit-learn's SGDClassifier at its own step sizes, those of svmsgd2, an objective after each epoch. *area*: "
        "under the ROC of test rows, of OCAS's last w. celegans: weighted-degree features of 60 bases around acceptor "
        "sites, a fifth of the rows held out. -: not there, or not to be had: SVMlight, SVMperf and BMRM are not."
    )
    found: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory))
        for name in filter(is_wanted, SETS):
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
                continue
            prepared = prepare_rows(Path(directory) / f"{name}-prepared", data.X, data.y)
            found += [measured(data, prepared, C) for C in CS]
        yield from _table(found)
        yield _figure(found)
        yield ""
        yield from verdict(SOONER, [_sooner(problem, ACCURATE, EXACT) for problem in found])
        yield from verdict(EARLIER, [_sooner(problem, GRADIENTS, EARLY) for problem in found])
        yield from _grid(found)
        yield from _sizes(Path(directory))


def _table(found: Sequence[Problem]) -> Iterator[str]:
    names = (*OURS, *ACCURATE, *GRADIENTS)
    levels = [f"{name}: s to {level:.0e}" for name in names for level in LEVELS]
    yield from header("data", "C", "F*, known to", *levels, "area")
    for problem in found:
        seconds = [cell(problem.seconds_to(each, level), ".2g") for each in names for level in LEVELS]
        known = f"{problem.optimum.doubt:.0e}"
        yield row(problem.name, f"{problem.C:g}", known, *seconds, cell(problem.area, ".4f"))
    yield ""


def _sooner(problem: Problem, others: Mapping[str, str], level: float) -> Case:
    ours = problem.seconds_to("OCAS here", level)
    theirs = {name: problem.seconds_to(name, level) for name in others if problem.curves[name]}
    return _against(problem.title, ours, theirs)


def _against(where: str, ours: float | None, theirs: Mapping[str, float | None]) -> Case:
    """Whether our seconds are the least; None stands for never."""
    others_seconds = ", ".join(f"{name} {cell(each, '.2g')}" for name, each in theirs.items())
    figures = f"{cell(ours, '.2g')} s against {others_seconds or 'nobody'}"
    known = [each for each in theirs.values() if each is not None]
    if not theirs or (ours is None and not known):
        return Case(where, None, figures)
    return Case(where, ours is not None and all(ours <= each for each in known), figures)


def _grid(found: Sequence[Problem]) -> Iterator[str]:
    """Seconds of a whole grid of C, and the largest area under the ROC on it."""
    yield "### A grid of C"
    yield ""
    yield from prose(
        f"Processor seconds to {EXACT:.0e} at {', '.join(f'{C:g}' for C in CS)} together, each from zero; - where one "
        "of them never came so near, or the optimum is not known so well. *best C*: of the largest area."
    )
    names = (*OURS, *ACCURATE, *GRADIENTS)
    yield from header("data", *names, "best C", "area")
    cases = []
    for name in dict.fromkeys(problem.name for problem in found):
        problems = [problem for problem in found if problem.name == name]
        totals = {each: _total([problem.seconds_to(each, EXACT) for problem in problems]) for each in names}
        best = max((problem for problem in problems if problem.area is not None), key=_area_of, default=None)
        told = (f"{best.C:g}", f"{best.area:.4f}") if best else ("-", "-")
        yield row(name, *(cell(totals[each], ".2g") for each in names), *told)
        there = [each for each in ACCURATE if all(problem.curves[each] for problem in problems)]
        cases.append(_against(name, totals["OCAS here"], {each: totals[each] for each in there}))
    yield ""
    yield from verdict(GRID, cases)


def _area_of(problem: Problem) -> float:
    return problem.area or 0.0


def _total(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _sizes(directory: Path) -> Iterator[str]:
    """How OCAS's time grows with the number of rows."""
    yield "### The number of rows"
    yield ""
    yield from prose(
        f"Processor seconds of OCAS to {TOLERANCE:.0e} of F(0); C times the number of rows is 1,000. made: normal rows "
        f"of {MADE_FEATURES} features, labels of a plane with noise."
    )
    yield from header("data", *(f"{rows:,}" for rows in ROWS), "power")
    cases = []
    for name in filter(is_wanted, OF_ROWS):
        seconds = {n_rows: ocas_seconds(n_rows, name, dataset) for n_rows, dataset in of_sizes(directory, name)}
        if not seconds:
            yield row(name, *["not available"] * (len(ROWS) + 1))
            continue
        large = {n_rows: each for n_rows, each in seconds.items() if n_rows >= 1000}
        power = float(np.polyfit([log10(each) for each in large], [log10(each) for each in large.values()], 1)[0])
        yield row(name, *(cell(seconds.get(n_rows), ".2g") for n_rows in ROWS), f"{power:.2f}")
        cases.append(Case(name, power <= SLOPE, f"power {power:.2f} from 1,000 rows on"))
    yield ""
    yield from verdict(LINEAR, cases)


def _figure(found: Sequence[Problem]) -> str:
    lines = -(-len(found) // len(CS))
    figure = Figure(figsize=(2.6 * len(CS), 2.5 * lines + 0.6), layout="constrained", dpi=130)
    panels = figure.subplots(lines, len(CS), squeeze=False).ravel()
    for problem, axes in zip(found, panels, strict=False):
        best = problem.optimum.value
        for style, (name, curve) in zip(STYLES, problem.curves.items(), strict=False):
            off = [max(objective / best - 1, 1e-6) for _, objective in curve]
            axes.plot([seconds for seconds, _ in curve], off, label=name, markersize=3, markevery=0.1, **style)  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel="processor time (s)", ylabel="(F - F*) / F*", ylim=(1e-4, 10))
        axes.set_title(problem.title, fontsize=9)
        axes.tick_params(labelsize=7, which="both")
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels, 5)
    return save(figure, "ocas-time")
