"""Rounds of a job on several machines, from its beginning to its certificate.

In a round each machine trains on its own rows. The coordinator adds up the changes of w and takes the best step along
the sum. w is the sum of one part for each machine: if one dies and comes back with an older alpha, only its part is
replaced. The coordinator waits for a late machine for some time only; the change of that machine then enters a later
round, so that the line search stays exact. Once rounds bring little, rows that do not rest are trained here after each
round (see pool).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import numpy as np

from streamsvm.service.cluster.rounds.convergence import Convergence, along_axis, best_step, dots
from streamsvm.service.cluster.rounds.machines import Certificate, Machines, Rules, ShardState
from streamsvm.service.cluster.rounds.messages import Answer, Change, Found
from streamsvm.service.cluster.rounds.pool import Pool, Pooled, share_of_gap
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import Order

_PATIENCE = 4.0  # times what a round usually takes, until others go on without a machine
_LEAST_PATIENCE = 5.0  # seconds
_POLL_SECONDS = 0.2
_NONE: Mapping[int, Array] = {}


class Coordinator:
    """`run` until the job has ended.

    width, axis   shape of w; the first `lanes` of its columns are lanes
    report        is called with this coordinator after each round
    is_stopping   tells whether a person has stopped the job
    pool          trains rows that do not rest after a round; None: they are not pooled
    attend        is called several times a second with the reports that have come, and may raise
    """

    def __init__(
        self,
        machines: Machines,
        rules: Rules,
        width: int,
        lanes: int,
        axis: int,
        report: Callable[["Coordinator"], None],
        is_stopping: Callable[[], bool],
        attend: Callable[[dict[int, Found]], None] = lambda _: None,
        pool: Pool | None = None,
    ) -> None:
        self._machines, self._rules, self._lanes = machines, rules, lanes
        self._report, self._attend = report, attend
        shape = (width, axis)
        self.w = np.zeros(shape)
        self._sum_of_shards = np.zeros(shape)  # differs from w by rounding
        self._total = np.zeros(shape)  # change of a round
        self.shards = [ShardState(np.zeros(shape), np.zeros(lanes)) for _ in range(len(machines))]
        self.round = rules.rounds_before
        self.D, self.step = np.zeros(lanes), np.ones(lanes)
        self.convergence = Convergence(rules, lanes, is_stopping)
        self._pool = pool
        self.pooled_rows = self.pooled_updates = 0  # of the last round; of all
        self.lacked_room = False  # for pooled rows
        self._usual_seconds: dict[Order, float] = {}

    def run(self) -> None:
        """Run rounds until the job has ended. Raises the errors of machines that cannot be begun anew."""
        everyone = set(range(len(self.shards)))
        come = self._collect(everyone, Order.GO_ON, needs_all=True)
        self._join(come)
        self._answer(come, Order.GO_ON, None, is_whole=True)
        while self.convergence.stop_reason is None:
            come = self._collect(everyone, Order.GO_ON, needs_all=self._wants_look())
            self.round += 1
            self._end_round(come)
            self._report(self)

    def _end_round(self, come: dict[int, Found]) -> None:
        """Take the best step along the changes these report; then pool rows, or look at all rows, if it is time."""
        is_joined = self._join(come)
        change = self._agree(come)
        self._machines.keep(come)
        is_pooling = not is_joined and len(come) > 1 and self._wants_pool()
        is_looking = not is_joined and len(come) == len(self.shards) and self._wants_look()
        order = Order.GIVE if is_pooling else Order.LOOK if is_looking else Order.GO_ON
        self._answer(come, order, change, is_whole=is_joined)
        self.pooled_rows = 0
        if is_pooling:
            come = self._train_pooled(set(come))
        if is_pooling or is_looking:
            self._look(set(come), needs_all=is_looking)

    def _look(self, asked: set[int], needs_all: bool) -> None:
        """Have these machines compute the figures of all their rows at the present w; then have them go on, or end."""
        come = self._collect(asked, Order.LOOK, needs_all)
        if len(come) == len(self.shards) and all(found.losses is not None for found in come.values()):
            self._certify(come)
        self._join(come)
        order = Order.GO_ON if self.convergence.stop_reason is None else Order.END
        self._answer(come, order, None, is_whole=True)

    def _wants_pool(self) -> bool:
        return self._pool is not None and self.convergence.is_slow and not self.convergence.has_to_end(self.round)

    def _has_to_end(self, come: dict[int, Found]) -> bool:
        self._attend(come)
        return bool(self.convergence.has_to_end(self.round))

    def _wants_look(self) -> bool:
        return self.convergence.wants_look(self.round, self.D)

    def _train_pooled(self, asked: set[int]) -> dict[int, Found]:
        """Train rows that do not rest, of these machines; send their alpha back. Returns the last reports."""
        assert self._pool is not None
        alpha: Mapping[int, Array] = {}
        with self._pool.open() as pooled:
            come, are_all = self._fill(pooled, asked)
            if not self._join(come) and are_all:
                share = share_of_gap(self.convergence.gap, self._rules.relative_gap, self.D)
                alpha = pooled.train(self.w, self.convergence.converged, share, lambda: self._has_to_end(come))
                if pooled.count and not alpha:
                    # The disk did not take them.
                    self._pool, self.lacked_room = replace(self._pool, most_bytes=self._pool.most_bytes // 2), True
            self.pooled_rows = pooled.count if alpha else 0
            self.pooled_updates += pooled.updates
        self._answer(come, Order.LOOK, None, is_whole=True, alpha=alpha)
        return come

    def _fill(self, pooled: Pooled, asked: set[int]) -> tuple[dict[int, Found], bool]:
        """Add the rows that these export to the pool. Returns their last reports, and whether no one was late."""
        come: dict[int, Found] = {}
        pending = asked
        while pending:
            answered = self._collect(pending, Order.GIVE, needs_all=False, least=0 if come else 1)
            given = {k: found.given for k, found in answered.items() if found.given is not None}
            for k, each in given.items():
                pooled.add(k, each)
                self.shards[k].sent_bytes += each.n_bytes
            come |= answered
            pending = {k for k, each in given.items() if each.segments}
            for k in pending:
                self._machines.answer(k, self._new_answer(Order.GIVE))
        ready = {k: found for k, found in come.items() if found.given is None or not found.given.segments}
        return ready, len(ready) == len(come)

    def _collect(self, pending: set[int], order: Order, needs_all: bool, least: int = 1) -> dict[int, Found]:
        """Reports on this order from all pending machines, or from those in time, but from `least` of them."""
        patience = max(_LEAST_PATIENCE, _PATIENCE * self._usual_seconds.get(order, inf))
        began = time.monotonic()
        come: dict[int, Found] = {}
        while pending - come.keys():
            self._attend(come)
            left = [k for k in pending - come.keys() if not self._machines.is_lost(k)]
            is_late = time.monotonic() - began > patience
            if len(come) >= least and not needs_all and (is_late or not left):
                break
            for k, found in self._machines.wait(pending - come.keys(), _POLL_SECONDS).items():
                come[k] = found
                shard = self.shards[k]
                shard.counts, shard.seconds, shard.came = found.counts, found.seconds, time.monotonic()
                shard.sent_bytes += found.change.n_bytes + (0 if found.own_w is None else found.own_w.nbytes)
        for k in come:
            self.shards[k].waited += time.monotonic() - self.shards[k].came
        if come:
            self._usual_seconds[order] = float(np.median([found.seconds for found in come.values()]))
        return come

    def _join(self, come: Mapping[int, Found]) -> bool:
        """Take over the parts of w that machines report as a whole; returns whether one of them has started anew."""
        told = {k: found.own_w for k, found in come.items() if found.own_w is not None}
        for k, own_w in told.items():
            self.shards[k].w[:], self.shards[k].dual = own_w, come[k].dual
        if told:
            # Added up anew, so that rounding errors of earlier rounds are gone.
            self._sum_of_shards[:] = sum(shard.w for shard in self.shards)
            self.w[:] = self._sum_of_shards
        return any(come[k].losses is None for k in told)

    def _agree(self, come: Mapping[int, Found]) -> Change:
        """Take the best step along the changes that these machines report; returns the sum of the changes."""
        moved = {k: found for k, found in come.items() if found.own_w is None and found.given is None}
        total = np.subtract(self._sum_of_shards, self.w, out=self._total)  # rounding errors of earlier rounds
        for found in moved.values():
            found.change.add_to(total)
        linear, square = (self._sum(moved, name) for name in ("linear", "square"))
        agreed = Change.of(total)
        total[...] = 0.0
        agreed.add_to(total)  # as machines decode it
        self.step = best_step(self.w[:, : self._lanes], total[:, : self._lanes], linear, square)
        if self._rules.combine == "average":
            self.step = np.ones(self._lanes)
        by = along_axis(self.step, self.w)
        agreed.add_to(self.w, by)
        for k, found in moved.items():
            found.change.add_to(self.shards[k].w, by)
            found.change.add_to(self._sum_of_shards, by)
            self.shards[k].dual = found.dual + self.step * found.linear - self.step**2 * found.square / 2.0
        self.D = sum(shard.dual for shard in self.shards) - self._half_norm()
        if moved:
            gap = self._sum(moved, "gap") if len(moved) == len(self.shards) else np.full(self._lanes, np.nan)
            self.convergence.meet(gap, *_extremes(moved))
        return agreed

    def _certify(self, come: Mapping[int, Found]) -> None:
        P = self._half_norm() + self._sum(come, "losses")
        v = np.zeros_like(self.w)
        for found in come.values():
            assert found.own_w is not None
            v += found.own_w
        w, v = self.w[:, : self._lanes], v[:, : self._lanes]
        self.D = self._sum(come, "dual") - dots(v, v) / 2.0  # what was known of it had been rounded
        w_error = np.sqrt(dots(w - v, w - v)) / np.maximum(np.sqrt(dots(w, w)), 1e-300)
        self.convergence.certify(Certificate(P, self.D, *_extremes(come), w_error), self.round)

    def _answer(
        self,
        come: Mapping[int, Found],
        order: Order,
        change: Change | None,
        is_whole: bool,
        alpha: Mapping[int, Array] = _NONE,
    ) -> None:
        for k, found in come.items():
            shard = self.shards[k]
            # A machine that has missed a step, or has begun anew, gets all of w.
            whole = is_whole or shard.round != self.round - 1 or found.own_w is not None
            shard.round = self.round
            agreed, w = (None, self.w) if whole else (change, None)
            self._machines.answer(k, self._new_answer(order, agreed, w, alpha.get(k)))

    def _new_answer(
        self, order: Order, change: Change | None = None, w: Array | None = None, alpha: Array | None = None
    ) -> Answer:
        most = self._pool.most_bytes // len(self.shards) if self._pool else 0
        return Answer(order, change, w, self.step, self.convergence.converged.copy(), alpha, most)

    def _half_norm(self) -> Array:
        w = self.w[:, : self._lanes]
        return dots(w, w) / 2.0

    def _sum(self, come: Mapping[int, Found], name: str) -> Array:
        return np.sum([getattr(found, name) for found in come.values()], axis=0) if come else np.zeros(self._lanes)


def _extremes(come: Mapping[int, Found]) -> tuple[Array, Array]:
    """M+ and M- of all of these."""
    M_plus = np.max([found.M_plus for found in come.values()], axis=0)
    return M_plus, np.min([found.M_minus for found in come.values()], axis=0)
