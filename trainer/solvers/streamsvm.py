"""StreamSVM: dual coordinate updates on what the cache holds while a reader streams the data through it.

Matsushima, Vishwanathan, Smola, "Linear support vector machines via dual cached loops", KDD 2012. `eviction` chooses
what leaves the cache: "score", where every row is visited when it arrives and those with the least left to teach
leave first, or "paper", the algorithm as printed.
"""

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import numpy as np

from storage.cache import Step
from storage.csr import Array
from trainer.problem import Problem
from trainer.progress import Progress
from trainer.settings import TrainerSettings
from trainer.solvers.paper_rule import PaperRule
from trainer.solvers.score_rule import ScoreRule
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.tally import Tally


class Rule(Protocol):
    """What of the cached rows is visited, and what the reader is told about them."""

    def begin(self, step: Step, rng: np.random.Generator) -> int:
        """Take in a new step; returns the visits it made at once."""

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows; returns how many (at least one)."""

    def end_section(self, rng: np.random.Generator) -> int:
        """The running step was the last of its section: make alpha and w fit to be kept; returns the visits made."""

    def end_pass(self, seconds: float, rng: np.random.Generator) -> bool:
        """After `end_section`: the pass is over, too, and has taken so long. Whether training has likely converged."""

    def begin_section(self) -> None:
        """Forget what does not follow from `resumable` and the cache."""

    def resumable(self) -> dict[str, Array]:
        """Arrays that have to be kept to go on from the end of a section; a new Rule is given them as `kept`."""


RULES: dict[str, Callable[..., Rule]] = {"score": ScoreRule, "paper": PaperRule}
_TRAINER_STREAM = 2  # keeps this solver's random numbers apart from the reader's, which has the same seed


def streamsvm(
    problem: Problem, settings: TrainerSettings, steps: Steps, alpha: Array, w: Array
) -> Generator[Progress, None, None]:
    """Train alpha (n_rows,) and w (width,) in place; yields after every pass, for ever."""
    tally = Tally(alpha, w, steps.kept)
    with ThreadPoolExecutor(settings.threads) as pool, closing(Spill(settings.spill, steps.spilled)) as spill:
        rule = RULES[settings.eviction](problem, settings, steps, tally, alpha, w, pool, spill)
        steps.keep(lambda: {**tally.resumable(), **rule.resumable()})
        yield from _passes(rule, settings, steps, tally, w)


def _passes(
    rule: Rule, settings: TrainerSettings, steps: Steps, tally: Tally, w: Array
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
        is_due = not step.ends_section and steps.is_checkpoint_due
        if step.ends_section or is_due:
            tally.owed -= rule.end_section(rng)
        if is_due:
            steps.checkpoint_within(w)
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
        is_early = (settings.follows or settings.spill) and step.pass_ == 1
        while settings.pace == "adaptive" and not is_early and not is_empty and not steps.is_next_ready:
            rule.visit_some(rng)


def _updates_per_row(settings: TrainerSettings, pass_: int) -> float:
    """One in the first pass if sweeps over all rows follow: more than a second visit so soon after the first."""
    return min(1.0, settings.updates_per_row) if settings.spill and pass_ == 1 else settings.updates_per_row
