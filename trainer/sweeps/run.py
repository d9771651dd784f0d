"""Sweep after sweep over a store that holds all rows, with momentum, until the schedule says stop.

This is LIBLINEAR's loop (Hsieh et al. 2008, section 3.2): most sweeps leave out the rows that rest. The rows may be in
the cache or on disk. Several threads share w (trainer.kernels.visit).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.distributed.cocoa_round import Round
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.sweeps.schedule import Next, is_told, is_worth_threads, next_sweep
from streamsvm.trainer.sweeps.sweep import ALONE, Met, Threads, sweep
from streamsvm.trainer.updates.momentum import Momentum
from streamsvm.trainer.updates.progress import Sweep
from streamsvm.trainer.updates.statistics import Tally
from streamsvm.trainer.updates.updater import Visiting, Visits
from streamsvm.trainer.updates.variables import Variables

Random = np.random.Generator
Shares = Callable[[int, int], bool]  # (bytes, rows): whether threads share sweeps over them

# Fewer than this share of the rows have to be active for it to pay to have them read on their own.
_WORTH_NARROWING = 0.75
_FEW = 10_000  # rows, to know that share
_CAUTION = 0.7  # each time that a look was in vain, the next is taken so much later
_LEAST_CAUTION = 1e-3  # passes of a few sweeps may be thousands
_AT_END = 0.75  # what a sweep meets is of its middle; measured, the gap at its end is 0.6 to 0.75 times that


class Store(Protocol):
    """All rows of the problem."""

    @property
    def is_open(self) -> bool:
        """Whether it has not failed."""

    @property
    def n_bytes(self) -> int:
        """Of all its rows."""

    def windows(self, is_active: Callable[[Array], Array] | None, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once, or those of these ids (k,) active (k,) bool, maybe others; ends early if it fails."""

    @property
    def has_active(self) -> bool:
        """Whether it has the active rows in a place of their own, or needs none."""

    @property
    def n_aside(self) -> int:
        """Rows in that place: those set aside since it was emptied. 0 where none is needed."""

    def forget_active(self) -> None:
        """Empty it."""

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """The rows at the positions `picked` (k,) are active; those that are there already stay."""

    def narrow(self) -> None:
        """The active ones have all been set aside."""


@dataclass(frozen=True)
class Wanted:
    """What ends a run of sweeps; None: not this.

    tolerance     M+ - M-
    relative_gap  (P - D) / P
    share_of_gap  of P - D as the first sweep of the run met it
    """

    tolerance: float | None
    relative_gap: float | None
    share_of_gap: float | None = None

    def is_near(self, met: Met, first_gap: Figure, dual_objective: Figure, factor: Figure) -> bool | Array:
        """Whether what there is after a sweep that met this, times `factor`, is likely what is wanted, in each lane.

        A share of the gap is a measure of work, and needs no such factor.
        """
        near: bool | Array = False
        if met.visits == 0:
            return near
        if self.tolerance is not None:
            near = factor * met.distance <= self.tolerance
        if self.relative_gap is not None:
            gap = _AT_END * met.sums.gap
            near |= factor * gap <= self.relative_gap * (dual_objective + gap)
        if self.share_of_gap is not None:
            near |= met.sums.gap <= self.share_of_gap * first_gap
        return near


class Sweeps:
    """`run` them at the end of a pass. `variables` are those the visitor changes."""

    def __init__(
        self,
        visitor: Visiting,
        cursor: Cursor,
        tally: Tally,
        variables: Variables,
        wanted: Wanted,
        threads: Threads,
        kept: Mapping[str, Array],
        shares: Shares = is_worth_threads,
        make_momentum: Callable[..., Momentum] = Momentum,
        round_: Round | None = None,
    ) -> None:
        self._round = round_
        self._make_momentum = make_momentum
        self._visitor = visitor
        self._cursor = cursor
        self._link = cursor.link
        self._tally = tally
        self._variables = variables
        self._wanted = wanted
        self._threads = threads
        self._shares = shares
        self._caution = kept.get("caution", np.full(variables.count, 1.0 / _CAUTION))
        self._slack = inf
        self._pays = True  # to have the active rows read on their own
        self._n_visited = 0  # in the last sweep
        self.told: list[Sweep] = []  # of the last run

    def resumable(self) -> dict[str, Array]:
        """What new ones have to be given as `kept` to go on."""
        return {"caution": self._caution}

    def run(self, store: Store, is_late: Callable[[int], bool], rng: Random) -> None:
        """Until training is likely where it is wanted, is late after so many sweeps, or is interrupted."""
        step, has_to_end = self._cursor.step, is_late(0)
        D: Figure = -inf
        gaps: list[Figure] = []
        self._begin_run(step)
        # Of each byte there is so much more to do as there are lanes.
        threads = self._threads if self._shares(store.n_bytes * self._variables.count, step.n_rows) else ALONE
        while (kind := next_sweep(len(gaps), has_to_end)) is not Next.STOP:
            met = self._sweep(store, kind, gaps, threads, rng)
            if met is None:
                self._momentum.undo()
                self._visitor.before = self._momentum.before
                break
            self._link.hand_over()  # the next leaves out what has come to rest in this one
            gaps.append(met.sums.gap)
            if self._round and len(gaps) == 1:
                self._round.first_gap = gaps[0]
            before, D = D, self._tally.dual_objective(step)
            self._momentum.end_sweep(yields=before > D)
            self._visitor.before = self._momentum.before
            self._show(step, met, len(gaps))
            near = self._wanted.is_near(met, gaps[0], D, 1.0 / self._caution)
            has_to_end = is_late(len(gaps)) or self._settle(step, near)
            if self._cursor.checkpoints.is_due(ends_pass=False):
                self._cursor.checkpoints.make_within(step, self._variables.whole_w)
        del self._momentum  # its arrays are for nobody else
        self._variables.end()
        self._visitor.before = self._variables.alpha

    def _begin_run(self, step: Step) -> None:
        self._variables.begin()
        self._momentum = self._begin_momentum(step)
        # Had the last look been enough, there would be no more sweeps.
        less = np.maximum(_CAUTION * self._caution, _LEAST_CAUTION)
        self._caution = np.where(self._variables.is_left, less, self._caution)
        self._slack = inf
        self.told = []

    def _begin_momentum(self, step: Step) -> Momentum:
        variables = self._variables
        alpha, w, earlier_w = variables.alpha[: step.n_rows], variables.w, variables.earlier_w
        return self._make_momentum(alpha, w[: step.width], self._tally, earlier_w[: step.width])

    def _settle(self, step: Step, near: bool | Array) -> bool:
        """Leave what is near enough as it is; whether nothing else is left."""
        alpha = self._variables.alpha
        if self._variables.settle(near):
            return True
        if self._variables.alpha is not alpha:
            self._momentum = self._begin_momentum(step)
            self._visitor.before = self._momentum.before
        return False

    def _sweep(self, store: Store, kind: Next, gaps: list[float], threads: Threads, rng: Random) -> Met | None:
        """One sweep; None if it did not come to its end."""
        is_whole = kind is Next.WHOLE
        self._tally.begin_sweep()
        self._momentum.begin_sweep(gaps)
        self._visitor.before = self._momentum.before
        # A whole sweep adds what has become active to those set aside, until many of these have come to rest.
        if not store.has_active or (is_whole and self._n_visited < _WORTH_NARROWING * store.n_aside):
            store.forget_active()
        sets_aside = not store.has_active or (is_whole and store.n_aside > 0)
        met, self._n_active, self._n_read, self._pays = Met(), 0, 0, sets_aside
        windows = self._uninterrupted(store.windows(None if is_whole else self._is_active, rng))
        learn = partial(self._set_aside, store, met) if sets_aside else None
        sweep(windows, partial(self._choose, is_whole, rng), self._visitor, threads, learn, met)
        if self._pays:
            store.narrow()
        elif sets_aside:
            store.forget_active()
        self._slack, self._n_visited = met.slack, met.visits
        has_ended = store.is_open and not self._link.is_interrupted
        return met if has_ended and (met.visits == self._cursor.step.n_rows or not is_whole) else None

    def _uninterrupted(self, windows: Iterator[Segment]) -> Iterator[Segment]:
        for rows in windows:
            if self._link.is_interrupted:
                return
            yield rows

    def _choose(self, is_whole: bool, rng: Random, rows: Segment) -> Array:
        order = random_order(len(rows), rng)
        return order if is_whole else order[self._is_active(rows.row_id[order])]

    def _is_active(self, row_id: Array) -> Array:
        """Rows (k,) that do not rest by more than the slack, or that momentum has moved."""
        return (self._link.score[row_id] <= self._slack) | self._momentum.has_moved(row_id)

    def _set_aside(self, store: Store, met: Met, rows: Segment, order: Array, visits: Visits) -> None:
        """Of the rows just visited, those that short sweeps are to visit; no more of them if they are too many."""
        if self._pays:
            active = (visits.score <= met.slack) | self._momentum.has_moved(rows.row_id[order])
            store.set_aside(rows, order[active])
            self._n_active += int(np.count_nonzero(active))
            self._n_read += len(rows)
            self._pays = self._n_read < _FEW or self._n_active < _WORTH_NARROWING * self._n_read

    def _show(self, step: Step, met: Met, number: int) -> None:
        found = self._tally.progress(step, met.sums.M_plus, met.sums.M_minus, rows_unvisited=0)
        self._link.control["sweeps"] += 1
        self._link.show(found)
        if is_told(number):
            self.told.append(Sweep(number, self._link.elapsed_seconds, found))
