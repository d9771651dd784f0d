"""When BSCA's stop rule ends a run, and what that costs: Qaadan, Schueler, Glasmachers (2019), with ACF and without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from unittest.mock import patch

from streamsvm.trainer.solvers import budgeted
from streamsvm.trainer.sweeps.selection import Sampled
from tests.bench import jobs
from tests.bench.machines.data import PARAMETERS, Problem, problem
from tests.bench.papers.bsca_runs import Epoch, epochs_kept, warm_up
from tests.bench.papers.runs import SEEDS, is_wanted, seeds
from tests.bench.papers.verdict import Case, verdict
from tests.bench.report import header, prose, row

EPOCHS = 100
THRESHOLDS = (0.01, 0.001)
TIMES = (1, 2)  # in a row
RULES = tuple(product(THRESHOLDS, TIMES))
UNIFORM, ACCUMULATORS, PAPER = "uniform", "ACF, accumulators", "ACF, algorithm 4"
SELECTIONS = (UNIFORM, ACCUMULATORS, PAPER)
LOSS = 0.005  # of accuracy, which the claim allows
CLAIM = (
    "training ends by itself, at the threshold 0.001 once, and no later epoch would make the machine much more "
    f"accurate (here: by {LOSS:.1%}); so it does with adaptive frequencies."
)

Found = dict[tuple[str, str], list[list[Epoch]]]  # by set, selection; one a seed


def run() -> Iterator[str]:
    """Lines of Markdown."""
    yield from prose(
        f"Budget 500, partners looked up among 59 at random, one thread, {seeds()}, {EPOCHS} epochs. With S_e = "
        "log(max g - min g) over the steps of epoch e, the rule ends a run when |S_e - S_(e-1)| is at most the "
        "threshold, once (the paper) or twice in a row (this program). *epochs*, *seconds* of processor time: until "
        f"then, means of the seeds; >: some seed did not end. *lost*: accuracy after {EPOCHS} epochs less that at the "
        "end. This program takes S over rounds that visit each row where frequencies adapt; here S is of epochs, as "
        "in the paper. *change*: median |S_e - S_(e-1)| of the last half."
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
    yield from _table(found)
    yield from verdict(CLAIM, [_case(key, runs) for key, runs in found.items()])


def _measure(directory: Path, own: Problem) -> Found:
    dataset = jobs.ingested(directory / own.name, own.X, own.y)
    return {(own.name, name): [_run(own, dataset, name, seed) for seed in range(SEEDS)] for name in SELECTIONS}


def _run(own: Problem, dataset: Path, selection: str, seed: int) -> list[Epoch]:
    schedule = Sampled if selection == PAPER else budgeted.Adaptive
    with patch.object(budgeted, "Adaptive", schedule):
        way = {"selection": "uniform" if selection == UNIFORM else "adaptive"}
        return epochs_kept("bsca-stop", (selection, seed), own, dataset, EPOCHS, seed, _ends_or_last, **way)


def _ends_or_last(pass_: int, spreads: Sequence[float]) -> bool:
    """Whether one of RULES ends a run just here."""
    return pass_ == EPOCHS or any(end_of(spreads, *rule) == pass_ for rule in RULES)


def end_of(spreads: Sequence[float], threshold: float, times: int) -> int | None:
    """The epoch after which the rule ends a run, from 1; None: it does not."""
    in_a_row = 0
    for epoch, (before, now) in enumerate(pairwise(spreads), 2):
        in_a_row = in_a_row + 1 if abs(now - before) <= threshold else 0
        if in_a_row == times:
            return epoch
    return None


def _table(found: Found) -> Iterator[str]:
    names = [
        f"{what} {threshold:g}{' twice' if times == 2 else ''}"
        for threshold, times in RULES
        for what in ("epochs", "seconds", "lost")
    ]
    yield from header("data", "selection", *names, "change", words=2)
    for (name, selection), runs in found.items():
        cells = [text for rule in RULES for text in _cells(runs, *rule)]
        changes = [abs(b.spread - a.spread) for each in runs for a, b in pairwise(each[EPOCHS // 2 :])]
        yield row(name, selection, *cells, f"{sorted(changes)[len(changes) // 2]:.3f}")
    yield ""


def _cells(runs: Sequence[Sequence[Epoch]], threshold: float, times: int) -> tuple[str, str, str]:
    ends = [_end(each, threshold, times) for each in runs]
    above = "" if all(ends) else "> "
    stopped = [end or each[-1] for end, each in zip(ends, runs, strict=True)]
    epochs, seconds = mean(epoch.passes for epoch in stopped), mean(epoch.seconds for epoch in stopped)
    lost = mean(_lost(each, end) for each, end in zip(runs, stopped, strict=True))
    return f"{above}{epochs:.0f}", f"{above}{seconds:.2g}", f"{lost:.2%}"


def _end(each: Sequence[Epoch], threshold: float, times: int) -> Epoch | None:
    end = end_of([epoch.spread for epoch in each], threshold, times)
    return None if end is None else each[end - 1]


def _lost(each: Sequence[Epoch], end: Epoch) -> float:
    last = each[-1].accuracy
    assert last is not None and end.accuracy is not None
    return last - end.accuracy


def _case(key: tuple[str, str], runs: Sequence[Sequence[Epoch]]) -> Case:
    ends = [_end(each, 0.001, 1) for each in runs]
    if None in ends:
        return Case(", ".join(key), False, f"not within {EPOCHS} epochs")
    lost = max(_lost(each, end) for each, end in zip(runs, ends, strict=True) if end is not None)
    epochs = " ".join(str(end.passes) for end in ends if end is not None)
    return Case(", ".join(key), lost <= LOSS, f"after {epochs} epochs, {lost:.2%} lost")
