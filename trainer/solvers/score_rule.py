"""`eviction: "score"`: every row is visited once when it arrives, and tells the reader how little it has left."""

from concurrent.futures import Executor
from functools import partial

import numpy as np

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from trainer.arriving import find_resting
from trainer.kernels.dual import visit_rows
from trainer.mixture import Mixture
from trainer.problem import Problem
from trainer.selection import SELECTIONS, random_order
from trainer.settings import TrainerSettings
from trainer.solvers.active_set import ActiveSet
from trainer.spill import Spill
from trainer.steps import EMPTY_IDS, Steps
from trainer.sweep import WHOLE_EVERY, Sweep, Visits
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
        pool: Executor,
        spill: Spill,
    ) -> None:
        self._bounds = problem.bounds
        self._selection = SELECTIONS[settings.selection](len(alpha), steps.kept)
        self._steps = steps
        self._tally = tally
        self._alpha = alpha
        self._w = w
        self._pool = pool if settings.threads > 1 else None
        self._active = ActiveSet(settings, steps, tally, w, spill, self._visit)
        self._residents_due = 0.0  # visits of residents due for those of spilled rows
        self._live: tuple[int, ...] = ()
        self._sweepable: set[int] = set()
        self._sweep: list[int] = []
        self._slack = np.inf  # rows that rest by more are left out of this sweep
        self._mixture = Mixture()
        self.begin_section()

    def begin(self, step: Step, rng: np.random.Generator) -> int:
        """Take in a new step and visit its fresh rows; returns how many."""
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)
        self._live = (*step.fresh, *step.resident)
        fresh = [self._steps.read(segment_id) for segment_id in _shuffled(step.fresh, rng)]
        for rows, positions in zip(fresh, self._leave_out_resting(fresh), strict=True):
            self._selection.admit(rows.row_id)
            order = positions[random_order(len(positions), rng)]
            self._active.keep(rows, order, self._visit(rows, order))
        return sum(map(len, fresh))

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows, of the active set or resident; returns the number of visits."""
        rows = self._active.read(rng) if self._residents_due <= 0 else None
        if rows is None:
            visits = self._visit_resident(rng)
            self._residents_due = max(self._residents_due - visits, 0.0)
            return visits
        self._visit(rows, random_order(len(rows), rng))
        self._residents_due += _RESIDENT_VISITS * len(rows)
        return len(rows)

    def end_pass(self, seconds: float, rng: np.random.Generator) -> bool:
        """Visit what streamed by as resident and was not met in a sweep since: no row is left out of a pass.

        Then the active set, many times; the pass has taken so many seconds.
        """
        for segment_id in self._live:
            rows = self._steps.read(segment_id)
            self._visit(rows, self._steps.unvisited(rows.row_id))
        return self._active.sweep_all(seconds, partial(self._visit_residents_for, rng), rng)

    def _visit_residents_for(self, rng: np.random.Generator, visits: int) -> None:
        """As many as are due for so many visits of the active set. In the first pass they are no better than others."""
        if self._steps.step.pass_ == 1:
            return
        self._residents_due += _RESIDENT_VISITS * visits
        while self._residents_due > 0 and self._sweepable:
            self._residents_due -= self._visit_resident(rng)

    def begin_section(self) -> None:
        """A sweep ends where a section does, and the next one is whole."""
        self._sweep = []
        self._n_sweeps = 0
        self._met = Sweep()

    def resumable(self) -> dict[str, Array]:
        """What the selection has learned."""
        return self._selection.resumable()

    def _begin_sweep(self, rng: np.random.Generator) -> None:
        self._slack = self._met.slack if self._n_sweeps % WHOLE_EVERY else np.inf
        self._n_sweeps += 1
        self._met = Sweep()
        segment_ids = sorted(self._sweepable)
        self._sweep = _shuffled(segment_ids, rng)
        self._selection.begin_sweep(self._steps.read(segment_id).row_id for segment_id in segment_ids)

    def _leave_out_resting(self, fresh: list[Segment]) -> list[Array]:
        """Positions (k,) int32 of the rows to visit in each segment: all of them if there is but one thread."""
        if self._pool is None:
            return [np.arange(len(rows), dtype=np.int32) for rows in fresh]
        found = find_resting(fresh, self._bounds, self._alpha, self._w, self._pool)
        for rows, (resting, score) in zip(fresh, found, strict=True):
            count = int(np.count_nonzero(resting))
            if count:
                # Visited they are: with a projected gradient of 0, and nothing changed.
                self._tally.add(count, 0.0, 0.0, 0.0, 0)
                self._steps.note(rows.row_id[resting], score[resting])
        return [np.flatnonzero(~resting).astype(np.int32) for resting, _ in found]

    def _visit_resident(self, rng: np.random.Generator) -> int:
        order = EMPTY_IDS
        while not len(order):
            rows = self._next_residents(rng)
            order = self._selection.order(rows.row_id, rng)
        visits = self._visit(rows, order)
        self._met.add(visits, rows.Qii[order])
        self._selection.learn(rows.row_id, order, visits.gain)
        return len(order)

    def _next_residents(self, rng: np.random.Generator) -> Segment:
        """The rows of some more segments of the sweep, but for those that rest."""
        mixture = self._mixture
        mixture.clear()
        while not mixture.is_rich:
            if not self._sweep:
                if len(mixture.rows):
                    break
                self._begin_sweep(rng)
            segment_id = self._sweep.pop()
            # It may have been repacked since the sweep began.
            if segment_id in self._sweepable:
                rows = self._steps.read(segment_id)
                mixture.add(rows, np.flatnonzero(self._steps.score[rows.row_id] <= self._slack).astype(np.int32))
        return mixture.rows

    def _visit(self, rows: Segment, order: Array) -> Visits:
        """Visit the positions `order` (k,) of a segment."""
        score, gain = np.empty(len(rows), np.float32), np.empty(len(order))
        found = visit_rows(
            order, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._w, score, gain,
        )  # fmt: skip
        visits = Visits(score[order], gain, *found[:2])
        self._tally.add(len(order), *found)
        self._steps.note(rows.row_id[order], visits.score)
        return visits


def _shuffled(segment_ids: list[int] | tuple[int, ...], rng: np.random.Generator) -> list[int]:
    return rng.permutation(np.array(segment_ids, np.int64)).tolist()
