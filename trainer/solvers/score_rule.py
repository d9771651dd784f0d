"""What StreamSVM visits: every row once when it arrives, and it tells the reader how little it has left."""

import numpy as np

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from trainer.kernels.dual import visit_rows
from trainer.momentum import Momentum
from trainer.problem import Problem
from trainer.selection import random_order
from trainer.settings import TrainerSettings
from trainer.solvers.active_set import ActiveSet
from trainer.solvers.resident_sweeps import ResidentSweeps
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.sweep import Visits
from trainer.tally import Tally

# Visits of residents for one of a spilled row. They are those with most to teach: without, the last digits take long.
_RESIDENT_VISITS = 0.3


class ScoreRule:
    """Visits the fresh segments first, then the resident ones in random order, sweep after sweep."""

    def __init__(
        self,
        problem: Problem,
        settings: TrainerSettings,
        steps: Steps,
        tally: Tally,
        alpha: Array,
        w: Array,
        spill: Spill,
    ) -> None:
        self._bounds = problem.bounds
        self._steps = steps
        self._tally = tally
        self._alpha = alpha
        self._w = w
        momentum = self._momentum = Momentum(
            alpha, w, tally, steps.published if settings.spill_directory else np.empty_like(w)
        )
        residents = self._residents = ResidentSweeps(settings, steps, momentum, self._visit)
        self._active = ActiveSet(settings, steps, tally, w, spill, momentum, self._visit, residents.not_on_disk)
        self._residents_due = 0.0  # visits of residents due for those of spilled rows

    def begin(self, step: Step, rng: np.random.Generator) -> int:
        """Take in a new step and visit its fresh rows; returns how many."""
        self._residents.take_in(step)
        fresh = [self._steps.read(segment_id) for segment_id in _shuffled(step.fresh, rng)]
        for rows in fresh:
            order = random_order(len(rows), rng)
            self._active.keep(rows, order, self._visit(rows, order))
        return sum(map(len, fresh))

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows, of the active set or resident; returns the number of visits."""
        rows = self._active.read(rng) if self._residents_due <= 0 else None
        if rows is None:
            visits = self._residents.visit_some(rng)
            self._residents_due = max(self._residents_due - visits, 0.0)
            return visits
        self._visit(rows, random_order(len(rows), rng))
        self._residents_due += _RESIDENT_VISITS * len(rows)
        return len(rows)

    def end_section(self, rng: np.random.Generator) -> int:
        """Bring a sweep over the cache to its end, if it has to be."""
        return self._residents.finish(rng)

    def end_pass(self, seconds: float, rng: np.random.Generator) -> bool:
        """Visit what streamed by as resident and was not met in a sweep since: no row is left out of a pass.

        Then the active set, many times; the pass has taken so many seconds.
        """
        for segment_id in self._residents.segments:
            rows = self._steps.read(segment_id)
            self._visit(rows, self._steps.unvisited(rows.row_id))
        return self._active.sweep_all(seconds, rng)

    def begin_section(self) -> None:
        """Forget where the sweep over the cache was."""
        self._residents.begin_section()

    def _visit(self, rows: Segment, order: Array) -> Visits:
        """Visit the positions `order` (k,) of a segment."""
        score, gain = np.empty(len(rows), np.float32), np.empty(len(order))
        found = visit_rows(
            order, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._momentum.feasible, self._w, score, gain,
        )  # fmt: skip
        visits = Visits(score[order], gain, *found[:2])
        self._tally.add(len(order), *found)
        self._steps.note(rows.row_id[order], visits.score)
        return visits


def _shuffled(segment_ids: list[int] | tuple[int, ...], rng: np.random.Generator) -> list[int]:
    return rng.permutation(np.array(segment_ids, np.int64)).tolist()
