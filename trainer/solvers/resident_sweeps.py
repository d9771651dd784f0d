"""Sweeps over the rows of the cache, some at a time; with momentum if it holds all rows of the problem."""

from collections.abc import Callable, Iterator

import numpy as np

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from storage.state import SPILLED
from trainer.mixture import Mixture
from trainer.momentum import Momentum
from trainer.selection import random_order
from trainer.settings import TrainerSettings
from trainer.steps import Steps
from trainer.sweep import WHOLE_EVERY, Sweep, Visits


class ResidentSweeps:
    """`take_in` each step, then `visit_some` as often as there is time; `finish` at the end of a section.

    visit      visits the positions (k,) of a segment
    segments   ids of all in the cache
    """

    def __init__(
        self,
        settings: TrainerSettings,
        steps: Steps,
        momentum: Momentum,
        visit: Callable[[Segment, Array], Visits],
    ) -> None:
        self._steps = steps
        self._momentum = momentum
        self._visit = visit
        self._is_reproducible = settings.pace == "fixed"
        self._may_move = not settings.spill_directory
        self._mixture = Mixture()
        self._cached: tuple[tuple[int, ...], ...] = ()  # segments, fresh and resident
        self.segments: tuple[int, ...] = ()
        self._sweepable: set[int] = set()
        self._has_all = False  # rows of the problem, and none comes or goes
        self._is_moving = False  # the sweep that goes on is one of momentum's
        self._gaps: list[float] = []  # that momentum's sweeps have met
        self.begin_section()

    def take_in(self, step: Step) -> None:
        """Of a new step, sweep over what can be visited now."""
        if self._cached != (step.fresh, step.resident):
            self._cached = step.fresh, step.resident
            self.segments = (*step.fresh, *step.resident)
            self._has_all = (
                not step.fresh and sum(len(self._steps.read(known)) for known in step.resident) == step.n_rows
            )
            self._begin_anew()
        # Rows just visited wait for the next step, unless there are no others.
        self._sweepable = set(step.resident or step.fresh)

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows that do not rest; returns how many."""
        visits = 0
        while not visits:
            if not self._left:
                self._end()
                self._begin(rng)
            visits = self._visit_next(rng)
        return visits

    def finish(self, rng: np.random.Generator) -> int:
        """Visit what is left of a sweep of momentum's: it ends with alpha inside the bounds. Returns how many rows.

        A job that has to end does not wait for that: over a large cache it can take longer than its worker waits.
        """
        if self._steps.is_interrupted and not self._is_reproducible:
            self._begin_anew()
        visits = 0
        while self._is_moving:
            visits += self._visit_next(rng)
            if not self._left:
                self._end()
        return visits

    def not_on_disk(self, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows but those that are on the trainer's disk, some at a time."""
        segments = [self._steps.read(segment_id) for segment_id in self.segments]
        picked = [np.flatnonzero(self._steps.spilled[rows.row_id] & SPILLED == 0).astype(np.int32) for rows in segments]
        for _, rows in self._mixture.sweep(segments, rng, picked):
            yield rows

    def begin_section(self) -> None:
        """A sweep ends where a section does, and the next one is whole."""
        if self._is_reproducible:
            self._begin_anew()
        self._left: list[int] = []
        self._n_sweeps = 0
        self._met = Sweep()

    def _begin(self, rng: np.random.Generator) -> None:
        self._slack = self._met.slack if self._n_sweeps % WHOLE_EVERY else np.inf
        self._n_sweeps += 1
        self._met = Sweep()
        segment_ids = sorted(self._sweepable)
        self._left = rng.permutation(np.array(segment_ids, np.int64)).tolist()
        if self._has_all and self._may_move:
            self._momentum.begin_sweep(self._gaps, self._steps.step.n_rows, self._steps.step.width)
            self._is_moving = True

    def _end(self) -> None:
        if self._is_moving:
            self._momentum.end_sweep()
            self._gaps.append(self._met.gap)
            self._is_moving = False

    def _begin_anew(self) -> None:
        """Momentum does not go on from the sweeps so far; one that cannot be brought to its end has not been."""
        if self._is_moving:
            self._momentum.undo()
            self._is_moving = False
        self._momentum.forget()
        self._gaps.clear()

    def _visit_next(self, rng: np.random.Generator) -> int:
        """Visit some more rows of the sweep, if any are left in it."""
        rows = self._next_rows()
        order = random_order(len(rows), rng)
        visits = self._visit(rows, order)
        self._met.add(visits, rows.Qii[order])
        return len(order)

    def _next_rows(self) -> Segment:
        """The rows of some more segments of the sweep, but for those that rest."""
        mixture = self._mixture
        mixture.clear()
        while self._left and not mixture.is_rich:
            segment_id = self._left.pop()
            # It may have been repacked since the sweep began.
            if segment_id in self._sweepable:
                rows = self._steps.read(segment_id)
                active = (self._steps.score[rows.row_id] <= self._slack) | self._momentum.has_moved(rows.row_id)
                mixture.add(rows, np.flatnonzero(active).astype(np.int32))
        return mixture.rows
