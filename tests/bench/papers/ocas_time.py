"""OCAS against others by time, over a grid of C, and with more rows (Franc, Sonnenburg, ICML 2008).

Its claims: OCAS is ahead of all accurate solvers, and of stochastic gradients even early (Table 2, Figure 2); so it is
where a grid of C is tried (Table 3); its time is linear in the number of rows (Figure 3).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.papers.data import read_in
from tests.bench.papers.figures import STYLES, draw_seeds, one_legend, save
from tests.bench.papers.ocas_cases import Contest, grouped, winners
from tests.bench.papers.ocas_runs import (
    ACCURATE,
    EXACT,
    GRADIENTS,
    LIMIT,
    MADE_FEATURES,
    MOST_EPOCHS,
    NAMES,
    ROWS,
    SETTINGS,
    TOLERANCE,
    Curve,
    Problem,
    Sized,
    measured,
    of_sizes,
    warm_up,
)
from tests.bench.papers.runs import TIMES, is_wanted, seeds
from tests.bench.papers.verdict import Case, verdict
from tests.bench.prepared import prepare_rows
from tests.bench.report import cell, header, prose, row, spread

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
        "Hinge loss, sum form, no bias, shuffled rows, all in memory, one thread, from zero; processor seconds of "
        f"training until F - F* is a share of F*: medians of {seeds()} in turn ± half the range. A seed changes "
        "the order of SGD's rows; of the others it repeats the run. A run ends when it is within "
        f"{EXACT / 10:.0e}, or after {LIMIT:g} s, or {TIMES:g} times the seconds of one that was within {EXACT:.0e}, "
        "1 s at least. *OCAS here*, *CPA here*: F(w_b). *libocas*: its authors' program `svmocas`, seconds of its own "
        "clock times the share of a core that it had. *LIBLINEAR*: -s 3 from scratch for each -e, with its own cap of "
        f"300 sweeps; its runs take {SETTINGS} times the limit together. *SGD*: scikit-learn's SGDClassifier at "
        f"its own step sizes, those of svmsgd2, an objective after each epoch, {MOST_EPOCHS} at most. "
        "*area*: under the ROC of test "
        "rows, of OCAS's last w. celegans: weighted-degree features of 60 bases around acceptor sites, a fifth of the "
        "rows held out. SVMlight, SVMperf and BMRM are not to be had. A solver that was not within "
        f"{EXACT:.0e} in the first turn ran in no other, which would be the same again (but SGD, where another was)."
    )
    found: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory))
        for name in filter(is_wanted, SETS):
            data = read_in(Path(directory), name)
            if data is None:
                yield from prose(f"{name}: not available.")
                continue
            # Some sets are sorted by class, which stochastic gradients could do nothing with.
            order = np.random.default_rng(0).permutation(len(data.y))
            prepared = prepare_rows(Path(directory) / f"{name}-prepared", data.X[order], data.y[order])
            found += [measured(data, prepared, C) for C in CS]
        yield from _tables(found)
        if found:
            yield _figure(found)
            yield ""
        for claim, others, level in ((SOONER, ACCURATE, EXACT), (EARLIER, GRADIENTS, EARLY)):
            yield from _verdict(claim, [contest(problem, others, level) for problem in found])
        yield from _grid(found)
        yield from _sizes(Path(directory))


def _tables(found: Sequence[Problem]) -> Iterator[str]:
    """One for each level."""
    yield from prose(
        "-: never; in brackets how far above the optimum it then was, the worst of the repeats; ?: the optimum is not "
        "known so well."
    )
    for level in LEVELS:
        yield f"#### Processor seconds to {level:.0e}"
        yield ""
        is_last = level == LEVELS[-1]
        yield from header("data", "C", *NAMES, *(["F*, known to", "area"] if is_last else []))
        for problem in found:
            more = [f"{problem.optimum.doubt:.0e}", cell(problem.area, ".4f")] if is_last else []
            yield row(problem.name, f"{problem.C:g}", *(told(problem, each, level) for each in NAMES), *more)
        yield ""


def told(problem: Problem, solver: str, level: float) -> str:
    """A cell: seconds to a level, or how far above the optimum the solver was given up."""
    seconds = problem.seconds_to(solver, level)
    if not seconds:
        return "not here"
    if not problem.is_known(level):
        return "?"
    known = [each for each in seconds if each is not None]
    if len(known) < len(seconds):
        some = f"{median(known):.2g}, {len(known)} of {len(seconds)}" if known else "-"
        return f"{some} ({problem.off(solver):.0e})"
    return spread(seconds, ".2g")


def contest(problem: Problem, others: Mapping[str, str], level: float) -> Contest:
    """OCAS here against those of the others that are there."""
    theirs = {name: problem.seconds_to(name, level) for name in others if problem.curves[name]}
    return Contest(problem.name, f"{problem.C:g}", problem.seconds_to("OCAS here", level), theirs)


def _verdict(claim: str, contests: Sequence[Contest]) -> Iterator[str]:
    """Figures are OCAS's seconds over those of the soonest other."""
    yield from verdict(claim, grouped(contests), f"the soonest was {winners(contests)}.")


def _grid(found: Sequence[Problem]) -> Iterator[str]:
    """Seconds of a whole grid of C, and the largest area under the ROC on it."""
    yield "### A grid of C"
    yield ""
    yield from prose(
        f"Processor seconds to {EXACT:.0e} at {', '.join(f'{C:g}' for C in CS)} together, each from zero; - where one "
        "of them never came so near, or the optimum is not known so well. *best C*: of the largest area."
    )
    yield from header("data", *NAMES, "best C", "area")
    contests = []
    for name in dict.fromkeys(problem.name for problem in found):
        problems = [problem for problem in found if problem.name == name]
        totals = {each: _totals([problem.seconds_to(each, EXACT) for problem in problems]) for each in NAMES}
        best = max((problem for problem in problems if problem.area is not None), key=_area_of, default=None)
        chosen = (f"{best.C:g}", f"{best.area:.4f}") if best else ("-", "-")
        yield row(name, *(spread(totals[each], ".2g") for each in NAMES), *chosen)
        there = [each for each in ACCURATE if all(problem.curves[each] for problem in problems)]
        contests.append(Contest(name, "", totals["OCAS here"], {each: totals[each] for each in there}))
    yield ""
    yield from _verdict(GRID, contests)


def _area_of(problem: Problem) -> float:
    return problem.area or 0.0


def _totals(seconds: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Of each repeat over all problems; of as many as all problems have."""
    repeats = min(map(len, seconds))
    return [
        None if None in parts else sum(part or 0.0 for part in parts)
        for parts in ([each[repeat] for each in seconds] for repeat in range(repeats))
    ] or [None]


def _sizes(directory: Path) -> Iterator[str]:
    """How OCAS's time grows with the number of rows."""
    yield "### The number of rows"
    yield ""
    yield from prose(
        f"Processor seconds of OCAS to {TOLERANCE:.0e} of F(0); C times the number of rows is 1,000; each seed draws "
        f"rows of its own. made: normal rows of {MADE_FEATURES} features, labels of a plane with noise. *power*: of "
        f"the rows from 1,000 on, a line through logarithms; >: some run was given up after {LIMIT:g} s, and does not "
        "count in it."
    )
    yield from header("data", *(f"{rows:,}" for rows in ROWS), "power")
    cases, growths = [], []
    for name in filter(is_wanted, OF_ROWS):
        found = {one.n_rows: one for one in of_sizes(directory, name)}
        if not found:
            yield row(name, *["not available"] * (len(ROWS) + 1))
            continue
        powers = power([one for one in found.values() if one.n_rows >= 1000 and one.ended])
        yield row(name, *(_sized(found.get(n_rows)) for n_rows in ROWS), spread(powers, ".2f") if powers else "-")
        cases.append(grows(name, powers))
        growths += [f"{10 ** median(powers):.2g} on {name}"] if powers else []
    yield ""
    yield from verdict(LINEAR, cases, f"ten times the rows take OCAS so many times as long: {', '.join(growths)}.")


def _sized(one: Sized | None) -> str:
    return "-" if one is None else ("" if one.ended else "> ") + spread(one.seconds, ".2g")


def power(sized: Sequence[Sized]) -> list[float]:
    """Of each repeat; none of fewer than three sizes."""
    if len(sized) < 3:
        return []
    rows = [log10(one.n_rows) for one in sized]
    repeats = zip(*(one.seconds for one in sized), strict=True)
    return [float(np.polyfit(rows, np.log10(seconds), 1)[0]) for seconds in repeats]


def grows(name: str, powers: Sequence[float]) -> Case:
    """Undecided where the repeats are on both sides of SLOPE."""
    if not powers:
        return Case(name, None, "fewer than three sizes ended")
    holds = True if max(powers) <= SLOPE else False if min(powers) > SLOPE else None
    return Case(name, holds, f"power {spread(powers, '.2f')} from 1,000 rows on")


def _figure(found: Sequence[Problem]) -> str:
    lines = -(-len(found) // len(CS))
    figure = Figure(figsize=(2.9 * len(CS), 2.4 * lines + 0.6), layout="constrained", dpi=130)
    panels = figure.subplots(lines, len(CS), squeeze=False).ravel()
    for problem, axes in zip(found, panels, strict=False):
        for style, (name, curves) in zip(STYLES, problem.curves.items(), strict=False):
            if curves:
                _draw(axes, name, style, curves, problem.optimum.value)
        axes.set(xscale="log", yscale="log", ylim=(EXACT / 10, 10))
        axes.set_title(problem.title, fontsize=9)
        axes.tick_params(labelsize=7, which="both")
        axes.grid(color="0.9", linewidth=0.6)
    for axes in panels[-len(CS) :]:
        axes.set_xlabel("processor time (s)", fontsize=9)
    figure.supylabel("(F - F*) / F*", fontsize=9)
    one_legend(figure, panels, 5)
    return save(figure, "ocas-time")


def _draw(axes: Axes, name: str, style: dict[str, object], curves: Sequence[Curve], best: float) -> None:
    """The median of the repeats and their range, as far as all of them go."""
    length = min(map(len, curves))
    table = np.array([curve[:length] for curve in curves])  # (repeats, points, 2)
    seconds, off = np.median(table[:, :, 0], axis=0), np.maximum(table[:, :, 1] / best - 1, 1e-6)
    order = np.argsort(seconds, kind="stable")
    seconds, off = seconds[order], off[:, order]
    marks = 0.12 if length > 8 else 1
    draw_seeds(axes, seconds, off, name, style, marks)
