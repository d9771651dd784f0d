"""OCAS against others by time, and with more rows (Franc, Sonnenburg, ICML 2008, Table 2, Figures 2 and 3).

Its claims: OCAS is ahead of all accurate solvers, and of stochastic gradients even early; its time is linear in the
number of rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tests.bench import jobs
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import LIMIT, kept
from tests.bench.papers.verdict import Case, verdict
from tests.bench.peers.measure import measure
from tests.bench.prepared import Prepared, prepare_real
from tests.bench.real_data import is_there, rows_of
from tests.bench.report import cell, header, prose, row
from tests.contracts.problems import random_problem
from tests.contracts.solver import solving
from tests.reference.optima import OPTIMA

Curve = list[tuple[float, float]]  # (seconds, objective)

PROBLEMS = {"a9a": (0.01, 1.0), "imdb.train": (0.01, 1.0), "mnist8": (0.01,)}
OURS = {"OCAS here": "ocas", "CPA here": "cpa"}
ACCURATE = {"libocas": "OCAS", "LIBLINEAR": "LIBLINEAR"}
GRADIENTS = {"SGD": "SGDClassifier"}
LEVELS = (1e-1, 1e-2, 1e-3)
EARLY, EXACT = 1e-1, 1e-3
TOLERANCE = 1e-4  # where OCAS and CPA end
ROWS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
OF_ROWS = ("skin_nonskin", "mnist8")
SLOPE = 1.1  # log seconds over log rows: linear, or nearly
SOONER = f"OCAS is within {EXACT:.0e} of the optimum sooner than every other accurate solver."
EARLIER = f"it is within {EARLY:.0e} sooner than stochastic gradients."
LINEAR = f"its time grows linearly with the number of rows (here: with a power of at most {SLOPE:g})."


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        "Hinge loss, sum form, no bias, all rows in memory, one thread, from zero; processor seconds of training "
        f"until F - F* is a share of F*, at most {LIMIT:g} s a run. *OCAS here*, *CPA here*: F(w_b). *libocas*: its "
        "authors' program `svmocas`, by its own clock. *LIBLINEAR*: -s 3 from scratch for each -e. *SGD*: "
        "scikit-learn's SGDClassifier at its own step sizes, an objective after each epoch. -: not there, or not to "
        "be had: SVMlight, SVMperf and BMRM are not."
    )
    found: dict[tuple[str, float], dict[str, Curve]] = {}
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        _warm_up(Path(directory))
        for name, costs in PROBLEMS.items():
            if not is_there(name):
                yield from prose(f"{name}: not available.")
                continue
            data = prepare_real(Path(directory) / name, name)
            dataset = jobs.ingested(Path(directory) / f"{name}-data", *rows_of(name))
            found |= {(name, C): _curves(data, dataset, name, C) for C in costs}
        yield from _table(found)
        yield _figure(found)
        yield ""
        yield from verdict(SOONER, [_sooner(problem, curves, ACCURATE, EXACT) for problem, curves in found.items()])
        yield from verdict(EARLIER, [_sooner(problem, curves, GRADIENTS, EARLY) for problem, curves in found.items()])
        yield from _sizes(Path(directory))


def _warm_up(directory: Path) -> None:
    dataset = jobs.ingested(directory / "small", *random_problem())
    for solver in OURS.values():
        bounds(dataset, 1.0, solver, 0.5)


def bounds(dataset: Path, C: float, solver: str, most_seconds: float) -> Curve:
    """F(w_b) after each pass of a run with all rows cached, which ends at TOLERANCE."""
    curve: Curve = []
    seconds = 0.0
    with (
        jobs.scratch() as directory,
        solving(directory / "run", dataset, 1 << 31, C=C, solver=solver, tolerance=TOLERANCE) as session,
    ):
        while seconds < most_seconds:
            began = time.process_time()
            progress = next(session.passes)
            seconds += time.process_time() - began
            curve.append((seconds, progress.primal_bound))
            if progress.distance <= TOLERANCE:
                break
    return curve


def _curves(data: Prepared, dataset: Path, name: str, C: float) -> dict[str, Curve]:
    ours = {
        label: kept("ocas-time", (name, C, label), lambda solver=solver: bounds(dataset, C, solver, LIMIT))
        for label, solver in OURS.items()
    }
    enough = OPTIMA[name, C] * (1 + EXACT / 10)
    theirs = {
        label: kept("ocas-time", (name, C, label), lambda peer=peer: _peer(peer, data, C, enough))
        for label, peer in {**ACCURATE, **GRADIENTS}.items()
    }
    return ours | theirs


def _peer(name: str, data: Prepared, C: float, enough: float) -> Curve:
    """Empty: it cannot run here."""
    points = measure(name, data, C, enough, LIMIT).points
    return [
        (point.spent.seconds if (cores := point.spent.core_seconds) is None else cores, point.objective)
        for point in points
    ]


def seconds_to(curve: Sequence[tuple[float, float]], level: float) -> float | None:
    """Seconds of the first point at or below the objective; None: it never was."""
    return min((seconds for seconds, objective in curve if objective <= level), default=None)


def _table(found: Mapping[tuple[str, float], dict[str, Curve]]) -> Iterator[str]:
    names = (*OURS, *ACCURATE, *GRADIENTS)
    yield from header("data", "C", *(f"{name}: s to {level:.0e}" for name in names for level in LEVELS))
    for (name, C), curves in found.items():
        best = OPTIMA[name, C]
        seconds = [seconds_to(curves[each], best * (1 + level)) for each in names for level in LEVELS]
        yield row(name, f"{C:g}", *(cell(each, ".2g") for each in seconds))
    yield ""


def _sooner(problem: tuple[str, float], curves: dict[str, Curve], others: Mapping[str, str], level: float) -> Case:
    where, objective = f"{problem[0]}, C = {problem[1]:g}", OPTIMA[problem] * (1 + level)
    ours = seconds_to(curves["OCAS here"], objective)
    theirs = {name: seconds_to(curves[name], objective) for name in others if curves[name]}
    others_seconds = ", ".join(f"{name} {cell(each, '.2g')}" for name, each in theirs.items())
    figures = f"{cell(ours, '.2g')} s against {others_seconds or 'nobody'}"
    known = [each for each in theirs.values() if each is not None]
    if not theirs or (ours is None and not known):
        return Case(where, None, figures)
    return Case(where, ours is not None and all(ours <= each for each in known), figures)


def _sizes(directory: Path) -> Iterator[str]:
    """How OCAS's time grows with the number of rows."""
    yield "### The number of rows"
    yield ""
    yield from prose(f"Processor seconds of OCAS to {TOLERANCE:.0e} of F(0); C times the number of rows is 1,000.")
    yield from header("data", *(f"{rows:,}" for rows in ROWS), "power")
    cases = []
    for name in filter(is_there, OF_ROWS):
        X, y = rows_of(name)
        order = np.random.default_rng(0).permutation(len(y))
        seconds = {}
        for n_rows in ROWS:
            if n_rows <= len(y):
                few = order[:n_rows]
                dataset = jobs.ingested(directory / f"{name}-{n_rows}", X[few], y[few])
                curve = kept("ocas-time", (name, n_rows), lambda: bounds(dataset, 1e3 / n_rows, "ocas", LIMIT))  # noqa: B023
                seconds[n_rows] = curve[-1][0]
        large = {n_rows: each for n_rows, each in seconds.items() if n_rows >= 1000}
        power = float(np.polyfit([log10(each) for each in large], [log10(each) for each in large.values()], 1)[0])
        yield row(name, *(cell(seconds.get(n_rows), ".2g") for n_rows in ROWS), f"{power:.2f}")
        cases.append(Case(name, power <= SLOPE, f"power {power:.2f} from 1,000 rows on"))
    yield ""
    yield from verdict(LINEAR, cases)


def _figure(found: Mapping[tuple[str, float], dict[str, Curve]]) -> str:
    figure = Figure(figsize=(2.6 * len(found), 3.2), layout="constrained", dpi=130)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for (problem, curves), axes in zip(found.items(), panels, strict=True):
        for style, (name, curve) in zip(STYLES, curves.items(), strict=False):
            off = [max(objective / OPTIMA[problem] - 1, 1e-6) for _, objective in curve]
            axes.plot([seconds for seconds, _ in curve], off, label=name, markersize=3, markevery=0.1, **style)  # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel="processor time (s)", ylabel="(F - F*) / F*", ylim=(1e-4, 10))
        axes.set_title(f"{problem[0]}, C = {problem[1]:g}", fontsize=9)
        axes.tick_params(labelsize=7, which="both")
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels, 5)
    return save(figure, "ocas-time")
