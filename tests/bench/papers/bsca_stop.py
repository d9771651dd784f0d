"""When BSCA's stop rule ends a run, and what that costs: Qaadan, Schueler, Glasmachers (2019), with ACF and without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from unittest.mock import patch

from matplotlib.figure import Figure

from streamsvm.trainer.solvers import budgeted
from streamsvm.trainer.sweeps.selection import Sampled
from tests.bench import jobs
from tests.bench.machines.data import PARAMETERS, Problem, problem
from tests.bench.papers.bsca_cases import joined
from tests.bench.papers.bsca_runs import Epoch, epochs_kept, warm_up
from tests.bench.papers.figures import STYLES, one_legend, save
from tests.bench.papers.runs import SEEDS, is_wanted, seeds
from tests.bench.papers.verdict import Case, agreed, verdict
from tests.bench.report import header, prose, row, spread

EPOCHS = 100
THRESHOLDS = (0.01, 0.001)
ONCE, TWICE, ROUNDS = "once", "twice", "twice, rounds"
TIMES = {ONCE: 1, TWICE: 2}  # in a row
UNIFORM, ACCUMULATORS, PAPER = "uniform", "ACF, accumulators", "ACF, algorithm 4"
RULES = {UNIFORM: (ONCE, TWICE), ACCUMULATORS: (ONCE, TWICE, ROUNDS), PAPER: (ONCE, TWICE, ROUNDS)}
LOSS = 0.005  # of accuracy, which the claim allows
AFTERWARDS = f"no later epoch would make the machine much more accurate (here: by {LOSS:.1%})"
CLAIM = (
    f"training ends by itself, when S changes by at most 0.001 once, and {AFTERWARDS}; so it does with adaptive "
    "frequencies."
)
OWN_CLAIM = (
    f"this program's rule (0.001, twice in a row, S of rounds that visit each row) ends a run, and {AFTERWARDS}; not "
    "the paper's claim."
)

Runs = list[list[Epoch]]  # one a seed
Found = dict[tuple[str, str], Runs]  # by set, selection


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Hinge loss, no bias, Gaussian kernel, budget 500, partners looked up among 59 at random, one thread, "
        f"{seeds()}, {EPOCHS} epochs; C and gamma as in `bsca budget`. S_e = log(max g - min g) over the steps of "
        "epoch e. A rule ends a run when |S_e - S_(e-1)| is at most the threshold, *once* (the paper) or *twice* in a "
        "row; *twice, rounds*: this program's rule, S of rounds that visit each row, which are several epochs where "
        "frequencies adapt, and one where they do not. *epochs*, *seconds* of processor time: until then, medians ± "
        f"half the range of the seeds; -: most did not end. *lost*: accuracy after {EPOCHS} epochs less that at the "
        "end, in points, of those that ended, the median. *change*: median |S_e - S_(e-1)| of the last half. "
        "*accumulators*: this program's schedule of visits, *algorithm 4*: the paper's, as many an epoch as rows. "
        "Figure: S_e of seed 0."
    )
    found: Found = {}
    with tempfile.TemporaryDirectory(prefix="streamsvm-bench-") as directory:
        warm_up(Path(directory), [{}, {"selection": "adaptive"}])
        for name in filter(is_wanted, PARAMETERS):
            own = problem(name)
            if own is None:
                yield from prose(f"{name}: not available.")
            else:
                found |= _measure(Path(directory), own)
    if not found:
        return
    yield from _table(found)
    yield save(_figure(found), "bsca-stop")
    yield ""
    yield from verdicts(found)


def verdicts(found: Found) -> Iterator[str]:
    """The paper's rule, then this program's; a case for each selection, then advice."""
    yield from verdict(CLAIM, joined((key[1], _case(key, runs, ONCE)) for key, runs in found.items()))
    own = [(key, runs, TWICE if key[1] == UNIFORM else ROUNDS) for key, runs in found.items() if key[1] != PAPER]
    yield from verdict(OWN_CLAIM, joined((key[1], _case(key, runs, rule)) for key, runs, rule in own), _advice(found))


def _measure(directory: Path, own: Problem) -> Found:
    dataset = jobs.ingested(directory / own.name, own.X, own.y)
    found: Found = {(own.name, selection): [] for selection in RULES}
    for seed in range(SEEDS):
        for (_, selection), runs in found.items():
            runs.append(_run(own, dataset, selection, seed))
    return found


def _run(own: Problem, dataset: Path, selection: str, seed: int) -> list[Epoch]:
    schedule = Sampled if selection == PAPER else budgeted.Adaptive
    with patch.object(budgeted, "Adaptive", schedule):
        way = {"selection": "uniform" if selection == UNIFORM else "adaptive"}
        return epochs_kept("bsca-stop", (selection, seed), own, dataset, EPOCHS, seed, _judged, **way)


def _judged(pass_: int, spreads: Sequence[float], changes: Sequence[float]) -> bool:
    """Whether a rule ends a run just here."""
    ends = [_first(changes, threshold) for threshold in THRESHOLDS]
    ends += [end_of(spreads, threshold, times) for threshold in THRESHOLDS for times in TIMES.values()]
    return pass_ == EPOCHS or pass_ in ends


def _first(changes: Sequence[float], threshold: float) -> int | None:
    """The epoch, from 1, of the first change that is small enough."""
    return next((epoch for epoch, change in enumerate(changes, 1) if change <= threshold), None)


def end_of(spreads: Sequence[float], threshold: float, times: int) -> int | None:
    """The epoch after which the rule ends a run, from 1; None: it does not."""
    in_a_row = 0
    for epoch, (before, now) in enumerate(pairwise(spreads), 2):
        in_a_row = in_a_row + 1 if abs(now - before) <= threshold else 0
        if in_a_row == times:
            return epoch
    return None


def _end(each: Sequence[Epoch], threshold: float, rule: str) -> Epoch | None:
    if rule == ROUNDS:
        end = _first([epoch.change for epoch in each], threshold)
    else:
        end = end_of([epoch.spread for epoch in each], threshold, TIMES[rule])
    return None if end is None else each[end - 1]


def _ends(runs: Runs, threshold: float, rule: str) -> list[Epoch | None]:
    return [_end(each, threshold, rule) for each in runs]


def _losses(runs: Runs, ends: Sequence[Epoch | None]) -> list[float]:
    """Accuracy after all epochs less that at the end, of the runs that ended."""
    pairs = [(each[-1].accuracy, end.accuracy) for each, end in zip(runs, ends, strict=True) if end is not None]
    return [last - now for last, now in pairs if last is not None and now is not None]


def _table(found: Found) -> Iterator[str]:
    names = [f"{what} {threshold:g}" for threshold in THRESHOLDS for what in ("epochs", "seconds", "lost")]
    yield from header("data", "selection", "rule", *names, "change", words=3)
    for (name, selection), runs in found.items():
        change = f"{median(abs(b.spread - a.spread) for each in runs for a, b in pairwise(each[EPOCHS // 2 :])):.3f}"
        for rule in RULES[selection]:
            cells = [text for threshold in THRESHOLDS for text in _cells(runs, threshold, rule)]
            yield row(name, selection, rule, *cells, change)
    yield ""


def _cells(runs: Runs, threshold: float, rule: str) -> tuple[str, str, str]:
    ends = _ends(runs, threshold, rule)
    losses = _losses(runs, ends)
    return (
        spread([end and end.passes for end in ends], ".0f"),
        spread([end and end.seconds for end in ends], ".2g"),
        f"{median(losses):.2%}" if losses else "-",
    )


def _case(key: tuple[str, str], runs: Runs, rule: str) -> Case:
    """Holds: each run ended in time. Undecided: the seeds do not agree."""
    ends = _ends(runs, THRESHOLDS[-1], rule)
    losses = _losses(runs, ends)
    if not losses:
        return Case(key[0], False, f"not within {EPOCHS} epochs")
    in_time = [loss <= LOSS for loss in losses] + [False] * (len(runs) - len(losses))
    epochs = " ".join(sorted((str(end.passes) for end in ends if end is not None), key=int))
    figures = f"after {epochs} epochs, {max(losses):.2%} lost"
    if len(losses) < len(runs):
        figures += f", {len(runs) - len(losses)} of {len(runs)} runs did not end"
    return Case(key[0], agreed(in_time), figures)


def _advice(found: Found) -> str:
    """For this program's schedules, the larger threshold that ended each run in time, with what it took."""
    return "; ".join(_advice_on(found, selection) for selection in (UNIFORM, ACCUMULATORS)) + "."


def _advice_on(found: Found, selection: str) -> str:
    rule = TWICE if selection == UNIFORM else ROUNDS
    runs = [each for key, some in found.items() if key[1] == selection for each in some]
    field = "uniform" if selection == UNIFORM else "adaptive"
    for threshold in THRESHOLDS:
        ends = _ends(runs, threshold, rule)
        passes = [end.passes for end in ends if end is not None]
        losses = _losses(runs, ends)
        if runs and len(passes) == len(runs) and max(losses) <= LOSS:
            return (
                f'with `selection: "{field}"`, `tolerance: {threshold:g}` ended every run, after {max(passes)} epochs '
                f"at most, with at most {max(0.0, *losses):.2%} of accuracy lost"
            )
    ended = sum(end is not None for end in _ends(runs, THRESHOLDS[0], rule))
    return (
        f'with `selection: "{field}"`, `tolerance: {THRESHOLDS[0]:g}` ended {ended} of {len(runs)} runs within '
        f"{EPOCHS} epochs, not all of them in time: give `max_passes`"
    )


def _figure(found: Found) -> Figure:
    """S of each epoch, seed 0: what a rule looks at."""
    sets = list(dict.fromkeys(name for name, _ in found))
    figure = Figure(figsize=(3.0 * max(len(sets), 2), 3.2), layout="constrained", dpi=130)
    for name, axes in zip(sets, figure.subplots(1, len(sets), squeeze=False)[0], strict=True):
        for style, selection in zip(STYLES, RULES, strict=False):
            spreads = [epoch.spread for epoch in found[name, selection][0]]
            axes.plot(range(1, len(spreads) + 1), spreads, label=selection, linewidth=0.9, **{**style, "marker": ""})
        axes.set(title=name, xlabel="epoch e", ylabel="S_e")
        axes.tick_params(labelsize=7)
        axes.grid(color="0.9", linewidth=0.6)
    one_legend(figure, figure.axes, len(RULES))
    return figure
