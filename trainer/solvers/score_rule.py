"""`eviction: "score"`: every row is visited once when it arrives, and tells the reader how little it has left."""

import numpy as np

from storage.cache import Step
from storage.csr import Array
from trainer.kernels.dual import visit_rows
from trainer.kernels.order import permutation
from trainer.problem import Problem
from trainer.settings import TrainerSettings
from trainer.steps import Steps
from trainer.tally import Tally


class ScoreRule:
    """Visits whole segments: the fresh ones first, then the resident ones in random order, sweep after sweep."""

    def __init__(
        self, problem: Problem, _settings: TrainerSettings, steps: Steps, tally: Tally, alpha: Array, w: Array
    ) -> None:
        self._bounds = problem.bounds
        self._steps = steps
        self._tally = tally
        self._alpha = alpha
        self._w = w
        self._live: tuple[int, ...] = ()
        self._sweepable: set[int] = set()
        self._sweep: list[int] = []

    def begin(self, step: Step, rng: np.random.Generator) -> int:
        """Take in a new step and visit its fresh rows; returns how many."""
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)
        self._live = (*step.fresh, *step.resident)
        return sum(self._visit_all(segment_id, rng) for segment_id in _shuffled(step.fresh, rng))

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit the next segment of the sweep; returns the number of its rows."""
        while True:
            if not self._sweep:
                self._sweep = _shuffled(sorted(self._sweepable), rng)
            segment_id = self._sweep.pop()
            # It may have been repacked since the sweep began.
            if segment_id in self._sweepable:
                return self._visit_all(segment_id, rng)

    def end_pass(self) -> None:
        """Visit what streamed by as resident and was not met in a sweep since: no row is left out of a pass."""
        for segment_id in self._live:
            left = self._steps.unvisited(self._steps.read(segment_id).row_id)
            if len(left):
                self._visit(segment_id, left)

    def _visit_all(self, segment_id: int, rng: np.random.Generator) -> int:
        order = np.empty(len(self._steps.read(segment_id)), np.int32)
        permutation(int(rng.integers(1, 1 << 32)), order)
        return self._visit(segment_id, order)

    def _visit(self, segment_id: int, order: Array) -> int:
        rows = self._steps.read(segment_id)
        score = np.empty(len(rows), np.float32)
        found = visit_rows(
            order, rows.row_id, rows.y, rows.Qii, rows.indptr, rows.indices, rows.values,
            *self._bounds, self._alpha, self._w, score,
        )  # fmt: skip
        self._tally.add(len(order), *found)
        if len(order) == len(rows):
            self._steps.note(rows.row_id, score)
        else:
            self._steps.note(rows.row_id[order], score[order])
        return len(order)


def _shuffled(segment_ids: list[int] | tuple[int, ...], rng: np.random.Generator) -> list[int]:
    return rng.permutation(np.array(segment_ids, np.int64)).tolist()
