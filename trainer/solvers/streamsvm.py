"""StreamSVM: dual coordinate updates on what the cache holds while a reader streams the data through it.

After Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012; their algorithm
as printed is `trainer.solvers.streamsvm_paper`. Every row is visited when it arrives, and those with the least left to
teach leave the cache first.
"""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from storage.csr import Array
from trainer.problem import Problem
from trainer.progress import Progress
from trainer.settings import TrainerSettings
from trainer.solvers.options import StreamOptions, option
from trainer.solvers.score_rule import ScoreRule
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.tally import Tally

_TRAINER_STREAM = 2  # keeps this solver's random numbers apart from the reader's, which has the same seed


@dataclass(frozen=True)
class Options(StreamOptions):
    """See `trainer.solvers.options`."""

    screening: float | None = option(
        0.1,
        "rows that rest at their bound by more than this slack do not enter the cache; null: all do",
        for_reader=True,
        ge=0,
    )
    spill: bool = option(
        True,
        "keep rows, decoded, in a file without a name on the dataset's disk, and sweep over those that do not rest: "
        "all of the decoded size at first; it leaves two thirds of the free disk alone, and gives all back when others "
        "fill it or when it is slow (below 200 MB/s); not with `pace` fixed, nor when the cache has room for all rows",
    )


def streamsvm(
    problem: Problem, settings: TrainerSettings, steps: Steps, alpha: Array, w: Array
) -> Generator[Progress, None, None]:
    """Train alpha (n_rows,) and w (width,) in place; yields after every pass, for ever."""
    tally = Tally(alpha, w, steps.kept)
    with closing(Spill(settings.spill_directory, steps.spilled)) as spill:
        rule = ScoreRule(problem, settings, steps, tally, alpha, w, spill)
        steps.keep(tally.resumable)
        yield from _passes(rule, settings, steps, tally, w)


def _passes(
    rule: ScoreRule, settings: TrainerSettings, steps: Steps, tally: Tally, w: Array
) -> Generator[Progress, None, None]:
    rng = np.random.default_rng()
    section = None
    began = time.monotonic()
    while True:
        step = steps.next()
        if (step.pass_, step.section) != section:
            section = step.pass_, step.section
            # From seed and section: one can be repeated without those before it.
            rng = np.random.default_rng((settings.seed, _TRAINER_STREAM, *section))
            rule.begin_section()
        tally.add_screened(step.screened)
        tally.owed += _updates_per_row(settings, step.pass_) * step.rows - step.screened - rule.begin(step, rng)
        is_empty = not (step.fresh or step.resident)  # all that has streamed by since a crash rests at its bound
        while tally.owed > 0 and not is_empty:
            tally.owed -= rule.visit_some(rng)
        if step.ends_section:
            tally.owed -= rule.end_section(rng)
        if step.ends_pass:
            is_likely = rule.end_pass(time.monotonic() - began, rng)
            progress = tally.finish_pass(step, steps.count_unvisited(step), steps.primal(step))
            yield replace(progress, has_likely_converged=is_likely)
        if step.ends_section:
            steps.end_section(w)
        if step.ends_pass:
            began = time.monotonic()
        # While a dataset is being read in, that is what the cores are for; and once more is known of what is active, a
        # visit is worth more.
        is_early = (settings.follows or settings.spill_directory) and step.pass_ == 1
        while settings.pace == "adaptive" and not is_early and not is_empty and not steps.is_next_ready:
            rule.visit_some(rng)


def _updates_per_row(settings: TrainerSettings, pass_: int) -> float:
    """One in the first pass if sweeps over all rows follow: more than a second visit so soon after the first."""
    wanted = settings.options.updates_per_row
    return min(1.0, wanted) if settings.spill_directory and pass_ == 1 else wanted
