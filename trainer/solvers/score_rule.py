"""`eviction: "score"`: every row is visited once when it arrives, and tells the reader how little it has left."""

import time
from concurrent.futures import Executor

import numpy as np

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from trainer.arriving import find_resting
from trainer.kernels.dual import visit_rows
from trainer.problem import Problem
from trainer.selection import SELECTIONS, random_order
from trainer.settings import TrainerSettings
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.tally import Tally

# Rows that rest by more than this are not in the active set: as what the reader screens by default.
_SPILLED_SLACK = 0.1
# Sweeps over the active set at the end of a pass, and the share of the pass's time they may take: the first two halve
# the distance to the optimum, twice as many make it a third.
_LAST_SWEEPS = 3
_LAST_SHARE = 0.3
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
        self._spill = spill
        self._residents_due = 0.0  # visits of residents due for those of spilled rows
        self._live: tuple[int, ...] = ()
        self._sweepable: set[int] = set()
        self._sweep: list[int] = []

    def begin(self, step: Step, rng: np.random.Generator) -> int:
        """Take in a new step and visit its fresh rows; returns how many."""
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)
        self._live = (*step.fresh, *step.resident)
        fresh = [self._steps.read(segment_id) for segment_id in _shuffled(step.fresh, rng)]
        for rows, positions in zip(fresh, self._leave_out_resting(fresh), strict=True):
            self._selection.admit(rows.row_id)
            self._visit_and_keep(rows, positions[random_order(len(positions), rng)])
        return sum(map(len, fresh))

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit a segment, spilled or resident; returns the number of visits."""
        rows = self._spill.read(rng) if self._residents_due <= 0 else None
        if rows is None:
            visits = self._visit_resident(rng)
            self._residents_due = max(self._residents_due - visits, 0.0)
            return visits
        self._visit(rows, random_order(len(rows), rng))
        self._residents_due += _RESIDENT_VISITS * len(rows)
        return len(rows)

    def end_pass(self, seconds: float, rng: np.random.Generator) -> None:
        """Visit what streamed by as resident and was not met in a sweep since: no row is left out of a pass.

        Then the active set, a few times; the pass has taken so many seconds.
        """
        for segment_id in self._live:
            rows = self._steps.read(segment_id)
            self._visit(rows, self._steps.unvisited(rows.row_id))
        self._renew_spill(rng)
        until = time.monotonic() + _LAST_SHARE * seconds
        left = (1 + _RESIDENT_VISITS) * _LAST_SWEEPS * self._spill.n_rows
        while left > 0 and time.monotonic() < until and not self._steps.is_interrupted:
            left -= self.visit_some(rng)

    def begin_section(self) -> None:
        """A sweep ends where a section does."""
        self._sweep = []

    def resumable(self) -> dict[str, Array]:
        """What the selection has learned."""
        return self._selection.resumable()

    def _begin_sweep(self, rng: np.random.Generator) -> None:
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

    def _renew_spill(self, rng: np.random.Generator) -> None:
        """Visit all that is spilled, and take what does not rest along with what came in this pass."""
        for rows in self._spill.sweep(rng):
            self._visit_and_keep(rows, random_order(len(rows), rng))
            if self._steps.is_interrupted:
                break
        self._spill.turn()

    def _visit_and_keep(self, rows: Segment, order: Array) -> None:
        """Visit the positions `order` (k,); those that do not rest are in the next active set."""
        score, _ = self._visit(rows, order)
        self._spill.keep(rows, order[score[order] <= _SPILLED_SLACK])

    def _visit_resident(self, rng: np.random.Generator) -> int:
        visits = 0
        while not visits:
            if not self._sweep:
                self._begin_sweep(rng)
            segment_id = self._sweep.pop()
            # It may have been repacked since the sweep began.
            if segment_id in self._sweepable:
                visits = self._visit_selected(segment_id, rng)
        return visits

    def _visit_selected(self, segment_id: int, rng: np.random.Generator) -> int:
        rows = self._steps.read(segment_id)
        order = self._selection.order(rows.row_id, rng)
        _, gain = self._visit(rows, order)
        self._selection.learn(rows.row_id, order, gain)
        return len(order)

    def _visit(self, rows: Segment, order: Array) -> tuple[Array, Array]:
        """Visit the positions `order` (k,); returns scores, by position, and what each visit gained (k,)."""
        score, gain = np.empty(len(rows), np.float32), np.empty(len(order))
        found = visit_rows(
            order, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._w, score, gain,
        )  # fmt: skip
        self._tally.add(len(order), *found)
        self._steps.note(rows.row_id[order], score[order])
        return score, gain


def _shuffled(segment_ids: list[int] | tuple[int, ...], rng: np.random.Generator) -> list[int]:
    return rng.permutation(np.array(segment_ids, np.int64)).tolist()
