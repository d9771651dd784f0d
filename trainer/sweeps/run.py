"""Sweeps over a store of all rows, one after the other, with momentum, until targets are likely reached.

This is LIBLINEAR's loop (Hsieh et al. 2008, section 3.2): most sweeps leave out the rows that rest. The rows may be in
the cache or on disk. Several threads share w (trainer.kernels.hinge).
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

import numpy as np

from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import INDEX, VALUE, Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.newton.choice import LEAST_SWEEPS, Outlook, shares_left
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.rows.disk import RowStore
from streamsvm.trainer.sweeps.sweep import (
    ALONE,
    WHOLE_EVERY,
    Next,
    Threads,
    is_told,
    is_worth_threads,
    next_sweep,
    sweep,
)
from streamsvm.trainer.updates.convergence import StoppingTargets, have_stalled
from streamsvm.trainer.updates.momentum import Momentum, rate
from streamsvm.trainer.updates.progress import Sweep
from streamsvm.trainer.updates.statistics import SweepStatistics, Visits
from streamsvm.trainer.updates.updater import SolverParts

Random = np.random.Generator
HandsOn = Callable[[int, Outlook], bool]
Shares = Callable[[int, int], bool]  # (bytes, number of rows) -> whether threads share sweeps over these rows

# Active rows are copied to another file if they are less than this share of all rows: else copying takes too long.
_WORTH_NARROWING = 0.75
_VALUE_BYTES = INDEX.itemsize + VALUE.itemsize
_FEW = 10_000  # rows that have to be read before the share is trusted
# After a certificate that misses the targets, sweeps go on until their figures are smaller by this factor than before
# it. The product of these factors has a lower bound: thousands of runs of a few sweeps may follow each other.
_LATER, _LEAST_CAUTION = 0.7, 1e-3


class Sweeps:
    """Sweeps over all rows: call `run` at the end of a pass.

    shares    (bytes of the rows, number of rows) -> whether threads share the sweeps
    hands_on  (number of sweeps of all runs, outlook) -> whether Newton steps are to take over; called after a sweep,
              once it is known at which rate gaps fall
    """

    def __init__(
        self,
        parts: SolverParts,
        cursor: Cursor,
        targets: StoppingTargets,
        threads: Threads,
        kept: Mapping[str, Array],
        shares: Shares = is_worth_threads,
        hands_on: HandsOn = lambda _sweeps, _outlook: False,
    ) -> None:
        self._variables, self._statistics, self._updater = parts
        self._cursor, self._shared = cursor, cursor.shared
        self._targets = targets
        self._threads = threads
        self._shares = shares
        self._hands_on = hands_on
        self._ended = self._shared.elapsed_seconds  # when the last run of sweeps ended
        self.has_handed_on = False
        # Gaps and distances of a sweep are divided by this factor before they are compared with targets.
        self._caution = kept.get("caution", np.full(self._variables.count, 1.0 / _LATER))
        self._slack = inf
        self._pays = True  # whether a copy of the active rows saves time
        self._n_visited = 0  # in the last sweep
        self.shown: list[Sweep] = []  # sweeps of the last run that the history lists
        self.gaps: list[Array] = []  # P - D, by what each sweep of the last run met

    def resumable(self) -> dict[str, Array]:
        """Return the arrays from which new Sweeps go on, as their `kept`."""
        return {"caution": self._caution}

    def run(self, store: RowStore, is_late: Callable[[int], bool], rng: Random) -> None:
        """Sweep until targets are likely reached, `is_late`(number of sweeps) returns True, or the job is stopped."""
        step, has_to_end = self._cursor.step, is_late(0)
        variables, gaps = self._variables, list[Array]()
        self.gaps = gaps
        each_D = [np.full(variables.count, -inf)]
        self._begin_run(step)
        # Work per byte grows with the number of tasks.
        threads = self._threads if self._shares(store.n_bytes * variables.count, step.n_rows) else ALONE
        while (kind := next_sweep(len(gaps), has_to_end)) is not Next.STOP:
            swept = self._sweep(store, kind, gaps, threads, rng)
            if swept is None:
                self._momentum.undo()
                break
            self._shared.hand_over()  # the next sweep leaves out rows that rest since this one
            gaps.append(swept.sums.gap)
            self._visits.append(swept.visits)
            each_D.append(D := self._statistics.dual_objective(step))
            self._momentum.end_sweep(yields=each_D[-2] > D)
            self._show(step, len(gaps))
            near = self._targets.near_after(swept, gaps[0], D, 1.0 / self._caution)
            has_to_end = is_late(len(gaps)) or self._settle(step, near) or have_stalled(each_D)
            if not has_to_end:
                outlook = self._outlook(swept, gaps, D, store.n_bytes / _VALUE_BYTES)
                a_sweep = (self._shared.elapsed_seconds - self._began) / len(gaps)
                self._shared.control["seconds_left"] = outlook.sweeps_left * a_sweep + self._between
                made, is_known = int(self._shared.control["sweeps_made"]), len(gaps) >= LEAST_SWEEPS
                self.has_handed_on = has_to_end = is_known and self._hands_on(made, outlook)
            if self._cursor.checkpoints.is_due(ends_pass=False):
                self._cursor.checkpoints.make_within(step, variables.whole_w)
        self._ended = self._shared.elapsed_seconds
        self._shared.control["seconds_left"] = 0.0  # only the certificate will tell whether more passes follow
        del self._momentum  # frees its arrays
        variables.end()

    def _begin_run(self, step: Step) -> None:
        self._variables.begin()
        self._momentum = Momentum(self._variables, self._statistics, step)
        # The last certificate did not end training: the next one has to wait for smaller figures.
        less = np.maximum(_LATER * self._caution, _LEAST_CAUTION)
        self._caution = np.where(self._variables.is_trained, less, self._caution)
        self._slack = inf
        self._began = self._shared.elapsed_seconds
        self._between = self._began - self._ended  # seconds of a pass over the data, which a certificate takes, too
        self._shared.control["seconds_left"] = 0.0
        self.shown = []
        self.has_handed_on = False
        self._visits: list[int] = []  # of each sweep of the run

    def _outlook(self, swept: SweepStatistics, gaps: list[Array], D: Array, n_values: float) -> Outlook:
        """Return the outlook for the tasks that are trained, by the sweeps so far."""
        trained = np.flatnonzero(self._variables.is_trained)
        each = np.array(gaps)[:, trained].T.tolist()
        return Outlook(
            # By momentum a gap rises for some sweeps, and falls again: then all sweeps say more than the last ones.
            rates=tuple(min(rate(of_task), rate(of_task, len(gaps))) for of_task in each),
            shares_left=tuple(shares_left(self._targets, swept.distance, swept.sums.gap, D)[trained].tolist()),
            visits=sum(self._visits[-WHOLE_EVERY:]) / len(self._visits[-WHOLE_EVERY:]),
            n_rows=self._cursor.step.n_rows,
            n_values=n_values,
            n_features=self._cursor.step.width,
            n_free=int(self._statistics.of_alpha[1][trained].max()),
        )

    def _settle(self, step: Step, near: Array) -> bool:
        """Stop training the tasks that are `near` their optimum; return whether no task is trained any more."""
        alpha = self._variables.alpha
        if self._variables.settle(near):
            return True
        if self._variables.alpha is not alpha:
            self._momentum = Momentum(self._variables, self._statistics, step)
        return False

    def _sweep(
        self, store: RowStore, kind: Next, gaps: list[Array], threads: Threads, rng: Random
    ) -> SweepStatistics | None:
        """Make a sweep; return its statistics, or None if the job was interrupted or the store failed."""
        is_whole = kind is Next.WHOLE
        self._statistics.begin_sweep()
        self._momentum.begin_sweep(gaps)
        # A whole sweep adds rows that have become active to the file. Once many rows in the file rest, it begins anew.
        if not store.has_active or (is_whole and self._n_visited < _WORTH_NARROWING * store.n_aside):
            store.forget_active()
        sets_aside = not store.has_active or (is_whole and store.n_aside > 0)
        swept = SweepStatistics.none(self._variables.count)
        self._n_active, self._n_read, self._pays = 0, 0, sets_aside
        windows = self._shared.uninterrupted(store.windows(None if is_whole else self._is_active, rng))
        learn = partial(self._set_aside, store, swept) if sets_aside else None
        sweep(windows, partial(self._choose, is_whole, rng), self._updater, threads, learn, swept)
        if self._pays:
            store.narrow()
        elif sets_aside:
            store.forget_active()
        self._slack, self._n_visited = swept.slack, swept.visits
        has_ended = store.is_open and not self._shared.is_interrupted
        return swept if has_ended and (swept.visits == self._cursor.step.n_rows or not is_whole) else None

    def _choose(self, is_whole: bool, rng: Random, rows: Segment) -> Array:
        order = random_order(len(rows), rng)
        return order if is_whole else order[self._is_active(rows.row_id[order])]

    def _is_active(self, row_id: Array) -> Array:
        """Return which rows (k,) do not rest with |G| above the slack, or have been moved by momentum, (k,) bool."""
        return (self._shared.score[row_id] <= self._slack) | self._momentum.has_moved(row_id)

    def _set_aside(self, store: RowStore, swept: SweepStatistics, rows: Segment, order: Array, visits: Visits) -> None:
        """Set aside the active ones among the rows just visited, unless active rows are too many for it to pay."""
        if self._pays:
            active = (visits.score <= swept.slack) | self._momentum.has_moved(rows.row_id[order])
            store.set_aside(rows, order[active])
            self._n_active += int(np.count_nonzero(active))
            self._n_read += len(rows)
            self._pays = self._n_read < _FEW or self._n_active < _WORTH_NARROWING * self._n_read

    def _show(self, step: Step, number: int) -> None:
        progress = self._statistics.progress(step, rows_unvisited=0)
        for name in ("sweeps", "sweeps_made"):
            self._shared.control[name] += 1
        self._shared.show(progress)
        if is_told(number):
            self.shown.append(Sweep(number, self._shared.elapsed_seconds, progress))
