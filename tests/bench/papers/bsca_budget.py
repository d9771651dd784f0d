"""BSCA against BSGD: the first claim of Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (2019)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, pstdev

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench import curve, jobs
from tests.bench.machines.data import PARAMETERS, Problem, problem
from tests.bench.papers.bsca_runs import Epoch, at, cost_to, epochs_kept, judged, warm_up
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import SEEDS, is_wanted, seeds
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import cell, header, prose, row, spread

EPOCHS = 30
LOOKED_AT = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30)
LATE = 5  # epochs after which accuracies of a run are asked to be steady
BUDGETS = (200, 500)
SOLVERS = ("bsca", "bsgd")
FASTER = "BSCA reaches the objective of BSGD sooner."
STEADIER = "BSCA's accuracy changes less from epoch to epoch."
BETTER = "BSCA's machine is at least as accurate in the end."

Runs = list[list[Epoch]]  # one a seed
Found = dict[tuple[str, int, str], Runs]  # by set, budget, solver


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, Gaussian kernel, {EPOCHS} epochs, one thread, all rows in memory, partners looked up "
        f"among 59 at random; {seeds()} in turn, medians ± half their range. Both solvers have the same C, gamma and "
        "budget: the best of a grid by LIBSVM's cross-validation. *seconds*: of processor time; *to BSGD's P*: until P "
        "over all rows was the best that BSGD had. *dual*: sum alpha - |f|^2 / 2, which bounds "
        f"nothing where vectors were merged. *swing*: largest less smallest accuracy of a run after epoch {LATE}. "
        "*merges a visit*: in the last epochs, and what Lemma 2 says of them from BSCA's alpha: the share of free "
        "rows for BSCA, mean alpha / C for BSGD."
    )
    found: Found = {}
    sets: dict[str, int] = {}  # rows of each
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [{"solver": solver} for solver in SOLVERS])
        for name in filter(is_wanted, PARAMETERS):
            own = problem(name)
            if own is None:
                yield from prose(f"{name}: not available.")
                continue
            sets[name] = len(own.y)
            yield from _about(own)
            found |= _measure(Path(directory), own)
    yield from _table(sets, found)
    yield save(_figure(list(sets), found), "bsca-budget")
    yield ""
    keys = [(name, budget) for name in sets for budget in BUDGETS]
    for claim, case in ((FASTER, _speed), (STEADIER, _swing), (BETTER, _accuracy)):
        yield from verdict(claim, [case(found, *key) for key in keys])


def _about(own: Problem) -> list[str]:
    return prose(f"{own.about}.")


def _measure(directory: Path, own: Problem) -> Found:
    dataset = jobs.ingested(directory / own.name, own.X, own.y)
    found: Found = {(own.name, budget, solver): [] for budget in BUDGETS for solver in SOLVERS}
    for seed in range(SEEDS):
        for key in found:
            _, budget, solver = key
            way = {"solver": solver, "budget": budget}
            found[key].append(
                epochs_kept("bsca-budget", (*key[1:], seed), own, dataset, EPOCHS, seed, at(LOOKED_AT), **way)
            )
    return found


def _table(sets: Mapping[str, int], found: Found) -> Iterator[str]:
    yield from header(
        "data", "budget", "solver", "seconds", "to BSGD's P", "P", "dual", "accuracy", "swing", "merges a visit",
        "Lemma 2", words=3,
    )  # fmt: skip
    for (name, budget, solver), runs in found.items():
        ours = found[name, budget, "bsca"]
        dual = spread([run[-1].dual for run in runs], ".5g") if solver == "bsca" else "-"
        lemma = mean(run[-1].free if solver == "bsca" else run[-1].bounded for run in ours)
        yield row(
            name,
            budget,
            solver,
            spread([run[-1].seconds for run in runs]),
            spread(_costs(found, name, budget, solver)),
            spread([run[-1].primal for run in runs], ".5g"),
            dual,
            spread([run[-1].accuracy for run in runs], ".2%"),
            spread([_swing_of(run) for run in runs], ".2%"),
            f"{mean(map(_late_merges, runs)) / sets[name]:.3f}",
            f"{lemma:.3f}",
        )
    yield ""


def _costs(found: Found, name: str, budget: int, solver: str) -> list[float | None]:
    """Seconds of each run until P was the best that BSGD had, the median of the seeds."""
    best = median(min(epoch.primal for epoch in judged(run)) for run in found[name, budget, "bsgd"])  # type: ignore[type-var]
    return [cost_to(run, best, "seconds") for run in found[name, budget, solver]]


def _swing_of(run: Sequence[Epoch]) -> float:
    late = [epoch.accuracy for epoch in judged(run) if epoch.passes >= LATE and epoch.accuracy is not None]
    return max(late) - min(late)


def _late_merges(run: Sequence[Epoch]) -> float:
    """Merges in as many visits as make one a row, in the last third."""
    before, last = run[2 * len(run) // 3 - 1], run[-1]
    return (last.merges - before.merges) / (last.visits - before.visits)


def _speed(found: Found, name: str, budget: int) -> Case:
    ours, theirs = (curve.median_or_none(_costs(found, name, budget, solver)) for solver in SOLVERS)
    holds = None if ours is None and theirs is None else theirs is None or (ours is not None and ours <= theirs)
    return Case(f"{name}, {budget}", holds, f"{cell(ours, '.2g')} s against {cell(theirs, '.2g')}")


def _swing(found: Found, name: str, budget: int) -> Case:
    ours, theirs = (median(map(_swing_of, found[name, budget, solver])) for solver in SOLVERS)
    return Case(f"{name}, {budget}", ours <= theirs, f"{ours:.2%} against {theirs:.2%}")


def _accuracy(found: Found, name: str, budget: int) -> Case:
    """Undecided: the difference is within the deviation of the seeds."""
    each = [[run[-1].accuracy or 0.0 for run in found[name, budget, solver]] for solver in SOLVERS]
    ours, theirs = map(mean, each)
    is_close = abs(ours - theirs) <= max(map(pstdev, each)) and SEEDS > 1
    return Case(f"{name}, {budget}", None if is_close else ours >= theirs, f"{ours:.2%} against {theirs:.2%}")


def _figure(sets: Sequence[str], found: Found) -> Figure:
    figure = Figure(figsize=(3.0 * len(sets), 5.6), layout="constrained", dpi=130)
    panels = figure.subplots(2, len(sets), squeeze=False)
    for name, (objective, accuracy) in zip(sets, panels.T, strict=True):
        styles = iter(STYLES)
        for budget in BUDGETS:
            for solver in SOLVERS:
                runs = [judged(run) for run in found[name, budget, solver]]
                style, label = next(styles), f"{solver.upper()}, {budget}"
                _band(objective, runs, lambda epoch: epoch.primal, label, style)
                _band(accuracy, runs, lambda epoch: 100 * epoch.accuracy, label, style)
        objective.set(title=name, ylabel="P", xscale="log", yscale="log")
        accuracy.set(xlabel="processor time (s)", ylabel="accuracy, held out (%)", xscale="log")
        for axes in (objective, accuracy):
            axes.tick_params(labelsize=7, which="both")
            axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, panels.ravel(), len(BUDGETS) * len(SOLVERS))
    return figure


def _band(axes: Axes, runs: Runs, y: Callable[[Epoch], float], label: str, style: dict[str, object]) -> None:
    """The median of the seeds and their range."""
    values = np.array([[y(epoch) for epoch in run] for run in runs])
    seconds = np.median([[epoch.seconds for epoch in run] for run in runs], axis=0)
    axes.plot(seconds, np.median(values, axis=0), label=label, linewidth=1.2, markersize=3.5, **style)  # type: ignore[arg-type]
    axes.fill_between(seconds, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.15)
