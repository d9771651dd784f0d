"""BSCA against BSGD: the first claim of Qaadan, Schueler, Glasmachers, "Dual SVM training on a budget" (2019)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench import jobs
from tests.bench.machines.data import PARAMETERS, Problem, problem
from tests.bench.papers.bsca_runs import (
    Epoch,
    costs_to,
    epochs_kept,
    is_less,
    is_less_accurate,
    judged,
    listed,
    warm_up,
)
from tests.bench.papers.figures import STYLES, draw_seeds, few_labels, one_legend, panels_of, plain, save
from tests.bench.papers.runs import MANY, is_wanted
from tests.bench.papers.verdict import PAIRED, Case, verdict
from tests.bench.report import header, prose, row, spread

EPOCHS = 30
LATE = 20  # epochs after which accuracies of a run are asked to be steady
LOOKED_AT = (1, 2, 3, 5, 7, 10, 15, 20, 22, 24, 26, 28, 30)
BUDGETS = (200, 500)
SOLVERS = ("bsca", "bsgd")
ROWS = 2  # of the held out: a swing that is less by no more than that is undecided
FASTER = "BSCA is sooner at an objective that both solvers reach (the paper: it is faster)."
LOWER = "BSCA's objective is lower after as many epochs."
STEADIER = f"BSCA's accuracy changes less from epoch to epoch (here: between epochs {LATE} and {EPOCHS})."
BETTER = "BSCA's machine is more accurate in the end."

Runs = list[list[Epoch]]  # one a seed
Found = dict[tuple[str, int, str], Runs]  # by set, budget, solver


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, Gaussian kernel, {EPOCHS} epochs, one thread, all rows in memory, partners looked up "
        f"among 59 at random; seeds: {MANY}; medians ± half their range. Both solvers have the same C, gamma and "
        "budget: the best of a grid by LIBSVM's cross-validation on 4,000 rows, of a9a LIBSVM's on all rows. "
        "*seconds*: of processor time; *to P of all*: until P over all rows was what each run of both solvers reached; "
        "*P*: after the last epoch; *dual*: sum alpha - |f|^2 / 2, which bounds nothing where vectors were merged. "
        f"*swing*: largest less smallest accuracy of a run from epoch {LATE} on, each second one. *merges a visit*: in "
        "the last third of the epochs, and what Lemma 2 says of them from BSCA's alpha: the share of free rows for "
        "BSCA, mean alpha / C for BSGD. "
        f"{PAIRED.capitalize()}; errors that differ by no more "
        f"than the root of their number are undecided, and swings by {ROWS} rows."
    )
    found: Found = {}
    sets: dict[str, Problem] = {}
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [{"solver": solver} for solver in SOLVERS])
        for name in filter(is_wanted, PARAMETERS):
            own = problem(name)
            if own is None:
                yield from prose(f"{name}: not available.")
                continue
            sets[name] = own
            yield from prose(f"{own.about}.")
            found |= _measure(Path(directory), own)
    if not found:
        return
    yield from _table(sets, found)
    yield save(_figure(list(sets), found), "bsca-budget")
    yield ""
    yield from verdicts(found, {name: len(own.y_test) for name, own in sets.items()})


def verdicts(found: Found, held_out: Mapping[str, int]) -> Iterator[str]:
    """A verdict a claim, a case for each set; then advice. held_out: rows of each set."""
    keys = [(name, budget) for name, budget, solver in found if solver == SOLVERS[0]]
    each = {
        claim: [(name, case(found, name, budget, held_out[name])) for name, budget in keys]
        for claim, case in ((FASTER, _speed), (LOWER, _objective), (STEADIER, _swing), (BETTER, _accuracy))
    }
    for claim, cases in each.items():
        yield from verdict(claim, _joined(cases), _advice(found, each) if claim == BETTER else "")


def _joined(cases: Iterable[tuple[str, Case]]) -> list[Case]:
    """One case for all that have the same group and the same verdict."""
    groups: dict[tuple[str, bool | None], list[Case]] = {}
    for group, case in cases:
        groups.setdefault((group, case.holds), []).append(case)
    return [
        Case(group, holds, ", ".join(f"{case.where}: {case.figures}" for case in some), len(some))
        for (group, holds), some in groups.items()
    ]


def _advice(found: Found, each: Mapping[str, Sequence[tuple[str, Case]]]) -> str:
    ours, theirs = (_names(each[BETTER], holds) for holds in (True, False))
    calm, restless = (sum(case.holds is holds for _, case in each[STEADIER]) for holds in (True, False))
    advice = (
        f"`bsca` is clearly the more accurate on {listed(ours)}, `bsgd` on {listed(theirs)}; `bsca`'s accuracy swings "
        f"less in {calm} of {len(each[STEADIER])} settings, `bsgd`'s in {restless}. Take `bsca`"
    )
    if not theirs:
        return advice + "."
    bounded = [f"{name} {_bounded(found, name):.2f}" for name in dict.fromkeys(name for name, _, _ in found)]
    return f"{advice}; try `bsgd` beside it on data like {listed(theirs)} (mean alpha / C: {', '.join(bounded)})."


def _bounded(found: Found, name: str) -> float:
    return mean(run[-1].bounded for budget in BUDGETS for run in found[name, budget, "bsca"])


def _names(cases: Sequence[tuple[str, Case]], holds: bool) -> list[str]:
    return list(dict.fromkeys(name for name, case in cases if case.holds is holds))


def _measure(directory: Path, own: Problem) -> Found:
    dataset = jobs.ingested(directory / own.name, own.X, own.y)
    found: Found = {(own.name, budget, solver): [] for budget in BUDGETS for solver in SOLVERS}
    for seed in range(MANY):
        for key in found:
            _, budget, solver = key
            way = {"solver": solver, "budget": budget}
            found[key].append(
                epochs_kept("bsca-budget", (*key[1:], seed), own, dataset, EPOCHS, seed, LOOKED_AT, **way)
            )
    return found


def _table(sets: Mapping[str, Problem], found: Found) -> Iterator[str]:
    yield from header(
        "data", "budget", "solver", "seconds", "to P of all", "P", "dual", "accuracy", "swing", "merges a visit",
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
            spread(_costs(found, name, budget)[solver]),
            spread([run[-1].primal for run in runs], ".5g"),
            dual,
            spread([run[-1].accuracy for run in runs], ".2%"),
            spread([_swing_of(run) for run in runs], ".2%"),
            f"{mean(map(_late_merges, runs)) / len(sets[name].y):.3f}",
            f"{lemma:.3f}",
        )
    yield ""


def _costs(found: Found, name: str, budget: int) -> dict[str, list[float]]:
    """Seconds of each run until P was what each run of both solvers reached."""
    both = {solver: found[name, budget, solver] for solver in SOLVERS}
    level = max(min(epoch.primal for epoch in judged(run)) for runs in both.values() for run in runs)  # type: ignore[type-var]
    return {solver: costs_to(runs, level, "seconds") for solver, runs in both.items()}  # type: ignore[arg-type]


def _swing_of(run: Sequence[Epoch]) -> float:
    late = [epoch.accuracy for epoch in judged(run) if epoch.passes >= LATE and epoch.accuracy is not None]
    return max(late) - min(late)


def _late_merges(run: Sequence[Epoch]) -> float:
    """Merges in as many visits as make one a row, in the last third."""
    before, last = run[2 * len(run) // 3 - 1], run[-1]
    return (last.merges - before.merges) / (last.visits - before.visits)


def _speed(found: Found, name: str, budget: int, _held_out: int) -> Case:
    costs = _costs(found, name, budget)
    ours, theirs = (costs[solver] for solver in SOLVERS)
    figures = f"{median(ours):.2g} s against {median(theirs):.2g}"
    return Case(str(budget), is_less(ours, theirs), figures)


def _objective(found: Found, name: str, budget: int, _held_out: int) -> Case:
    ours, theirs = _last(found, name, budget, lambda run: run[-1].primal or 0.0)
    return Case(str(budget), is_less(ours, theirs), f"{median(ours):.5g} against {median(theirs):.5g}")


def _swing(found: Found, name: str, budget: int, held_out: int) -> Case:
    ours, theirs = _last(found, name, budget, _swing_of)
    return Case(str(budget), is_less(ours, theirs, ROWS / held_out), f"{median(ours):.2%} against {median(theirs):.2%}")


def _accuracy(found: Found, name: str, budget: int, held_out: int) -> Case:
    ours, theirs = _last(found, name, budget, lambda run: run[-1].accuracy or 0.0)
    is_better = is_less_accurate(theirs, ours, held_out)
    return Case(str(budget), is_better, f"{median(ours):.2%} against {median(theirs):.2%}")


def _last(found: Found, name: str, budget: int, what: Callable[[list[Epoch]], float]) -> list[list[float]]:
    """A figure of each run, for each solver."""
    return [[what(run) for run in found[name, budget, solver]] for solver in SOLVERS]


def _figure(sets: Sequence[str], found: Found) -> Figure:
    figure, panels = panels_of(3, len(sets), (3.0 * max(len(sets), 2), 7.6))
    for name, (objective, dual, accuracy) in zip(sets, panels.T, strict=True):
        styles = iter(STYLES)
        for budget in BUDGETS:
            for solver in SOLVERS:
                runs = [judged(run) for run in found[name, budget, solver]]
                style, label = next(styles), f"{solver.upper()}, {budget}"
                _band(objective, runs, lambda epoch: epoch.primal, label, style)
                _band(accuracy, runs, lambda epoch: 100 * epoch.accuracy, label, style)
                if solver == "bsca":
                    _band(dual, runs, lambda epoch: epoch.dual, label, style)
        objective.set(title=name, ylabel="P", yscale="log")
        dual.set(ylabel="sum alpha - |f|²/2")
        accuracy.set(xlabel="processor time (s)", ylabel="accuracy, held out (%)")
        for axes in (objective, dual, accuracy):
            axes.set(xscale="log")
            few_labels(axes.xaxis)
            plain(axes)
    one_legend(figure, panels.ravel(), len(BUDGETS) * len(SOLVERS))
    return figure


def _band(axes: Axes, runs: Runs, y: Callable[[Epoch], float], label: str, style: dict[str, object]) -> None:
    """The median of the seeds and their range."""
    values = np.array([[y(epoch) for epoch in run] for run in runs])
    seconds = np.median([[epoch.seconds for epoch in run] for run in runs], axis=0)
    draw_seeds(axes, seconds, values, label, style)
