"""Sweeps over the active set on disk: what LIBLINEAR's shrinking would leave (Hsieh et al. 2008, section 3.2).

What a pass of the reader has brought is good for many sweeps, each of which costs a tenth of a pass. In the first pass
all rows are active.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

from storage.csr import Array
from storage.segment import Segment
from storage.state import SPILLED
from trainer.momentum import Momentum
from trainer.selection import random_order
from trainer.settings import TrainerSettings
from trainer.spill import Spill
from trainer.steps import Steps
from trainer.sweep import WHOLE_EVERY, Sweep, Visits
from trainer.tally import Tally

# Rows stay on disk that rest by no more than so many times that: what is dropped does not come back in this pass, and
# sweeps know nothing of its gap.
_KEPT_SLACKS = 2.0
# Sweeps go on while so many of them halve the gap that they meet, for so many times as long as the pass took: with
# something wanted that they may reach, and without. A pass costs as much as ten, and momentum begins anew after it.
_HALVING_SWEEPS = 30
# If the disk has not taken all rows, few sweeps: it makes no sense to solve for some of the rows alone.
_SWEEPS_OF_A_PART = 3
_LAST_SHARE, _LAST_SHARE_UNBOUND = 8.0, 1.0
# If less than this share of the rows on disk is visited, it is written anew: for good or until the next whole sweep.
_WORTH_READING = 0.75

Take = Callable[[Segment, Array, Visits], None]
Residents = Callable[[np.random.Generator], Iterator[Segment]]


class ActiveSet:
    """`keep` the rows that arrive, `read` some in spare time, `sweep_all` when the pass is over.

    visit      visits the positions (k,) of a segment
    residents  the rows of the cache that are not on disk, some at a time: they are part of the sweeps
    """

    def __init__(
        self,
        settings: TrainerSettings,
        steps: Steps,
        tally: Tally,
        w: Array,
        spill: Spill,
        momentum: Momentum,
        visit: Callable[[Segment, Array], Visits],
        residents: Residents,
    ) -> None:
        self._wanted = settings.tolerance, settings.relative_gap
        self._max_seconds = settings.max_seconds
        self._steps = steps
        self._tally = tally
        self._w = w
        self._spill = spill
        self._momentum = momentum
        self._visit = visit
        self._residents = residents
        self._slack = np.inf  # in the first pass, w says nothing about what will rest

    def keep(self, rows: Segment, order: Array, visits: Visits) -> None:
        """Rows at the positions `order` (k,) have been visited: those that do not rest are in the next active set."""
        self._spill.keep(rows, self._still_active(rows, order, visits, _KEPT_SLACKS * self._slack))

    def read(self, rng: np.random.Generator) -> Segment | None:
        """Some rows, if any are at hand."""
        return self._spill.read(rng)

    def sweep_all(self, seconds: float, rng: np.random.Generator) -> bool:
        """Take in what came in the pass, which took so many seconds, and sweep until that brings little.

        Returns whether training has likely converged.
        """
        self._whole_sweep(True, rng)
        has_likely_converged = self._sweep_on(self._until(seconds), rng)
        self._momentum.forget()
        self._spill.widen()
        return has_likely_converged

    def _sweep_on(self, until: float, rng: np.random.Generator) -> bool:
        gaps: list[float] = []
        renews = False
        most = np.inf if self._spill.is_whole else _SWEEPS_OF_A_PART
        while self._spill.n_rows and len(gaps) < most and time.monotonic() < until and not has_slowed_down(gaps):
            self._momentum.begin_sweep(gaps, self._steps.step.n_rows, self._steps.step.width)
            place = len(gaps) % WHOLE_EVERY
            if place == 0:
                sweep = self._whole_sweep(renews, rng)
            else:
                sweep = self._short_sweep(place == 1 and self._is_worth_narrowing(), rng)
            if not self._spill.has_swept_all:
                self._momentum.undo()
                break
            self._momentum.end_sweep()
            gaps.append(sweep.gap)
            self._slack = sweep.slack
            figures = self._tally.so_far(self._steps.step, self._steps.primal(self._steps.step))
            self._steps.show_sweep(M_plus=sweep.M_plus, M_minus=sweep.M_minus, **figures)
            if sweep.has_likely_converged(figures["dual_objective"], *self._wanted):
                return True
            # Not before all rows have had another visit.
            renews = len(gaps) % WHOLE_EVERY == 0 and sweep.visits < _WORTH_READING * self._spill.n_rows
            self._steps.checkpoint_within(self._w)
        return False

    def _whole_sweep(self, renews: bool, rng: np.random.Generator) -> Sweep:
        """Visit all rows of the active set.

        renews   those that do not rest now, along with what came in this pass, are the active set from then on
        """
        self._spill.widen()
        sweep = self._sweep(np.inf, self.keep if renews else None, rng)
        if renews:
            self._spill.turn()
        return sweep

    def _short_sweep(self, narrows: bool, rng: np.random.Generator) -> Sweep:
        """Visit the rows that do not rest by more than the slack.

        narrows  those that still do not are all that is read until the next whole sweep
        """
        sweep = self._sweep(self._slack, self._set_aside if narrows else None, rng)
        if narrows:
            self._spill.narrow()
        return sweep

    def _sweep(self, slack: float, take: Take | None, rng: np.random.Generator) -> Sweep:
        """Visit the rows that do not rest by more than `slack`; `take` is given those on disk as `keep` is."""
        sweep = Sweep()
        for rows in self._spill.sweep(rng):
            order, visits = self._visit_active(rows, slack, sweep, rng)
            if take is not None:
                take(rows, order, visits)
            if self._steps.is_interrupted:
                break
        if self._spill.has_swept_all and self._spill.n_rows:
            for rows in self._residents(rng):
                self._visit_active(rows, slack, sweep, rng)
        return sweep

    def _visit_active(
        self, rows: Segment, slack: float, sweep: Sweep, rng: np.random.Generator
    ) -> tuple[Array, Visits]:
        order = random_order(len(rows), rng)
        row_id = rows.row_id[order]
        order = order[(self._steps.score[row_id] <= slack) | self._momentum.has_moved(row_id)]
        visits = self._visit(rows, order)
        sweep.add(visits, rows.Qii[order])
        return order, visits

    def _set_aside(self, rows: Segment, order: Array, visits: Visits) -> None:
        self._spill.set_aside(rows, self._still_active(rows, order, visits, self._slack))

    def _still_active(self, rows: Segment, order: Array, visits: Visits, slack: float) -> Array:
        """Of the positions `order` (k,) just visited those of rows that rest by no more, or that momentum will move."""
        return order[(visits.score <= slack) | self._momentum.has_moved(rows.row_id[order])]

    def _is_worth_narrowing(self) -> bool:
        """Whether many rows of the active set rest."""
        known = slice(self._steps.step.n_rows)  # the arrays are longer while a dataset is being read in
        score = self._steps.score[known][self._steps.spilled[known] & SPILLED != 0]
        return int(np.count_nonzero(score <= self._slack)) < _WORTH_READING * self._spill.n_rows

    def _until(self, seconds: float) -> float:
        share = _LAST_SHARE_UNBOUND if self._wanted == (None, None) else _LAST_SHARE
        left = np.inf if self._max_seconds is None else self._max_seconds - self._steps.elapsed_seconds
        return time.monotonic() + min(share * seconds, left)


def has_slowed_down(gaps: list[float]) -> bool:
    """Whether the last sweeps brought little, by the gaps they met: another pass brings what they leave out."""
    return len(gaps) > _HALVING_SWEEPS and 2.0 * gaps[-1] >= gaps[-1 - _HALVING_SWEEPS]
