"""Rounds of a job on several machines, from its beginning to its certificate.

In a round each machine trains on its own rows. The coordinator adds up the changes of w and takes the best step along
the sum. w is the sum of one part for each machine: if a machine dies and comes back with an older alpha, only its part
is replaced. The coordinator waits for a late machine for some time only; that machine's change then enters a later
round, so that the line search stays exact. Once rounds bring little, rows that do not rest are trained by the
coordinator after each round (see pool), or all machines take Newton steps together (see newton).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import numpy as np

from streamsvm.service.cluster.rounds.convergence import RoundConvergence, along_axis, best_step, dots
from streamsvm.service.cluster.rounds.messages import (
    Change,
    Found,
    LaneCertificate,
    Machines,
    OrderToMachine,
    Rules,
    ShardState,
)
from streamsvm.service.cluster.rounds.newton import Newton
from streamsvm.service.cluster.rounds.pool import Pool, share_of_gap
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import Order
from streamsvm.trainer.updates.model_weights import ModelWeights, with_columns

_PATIENCE = 4.0  # after this many times the usual seconds of a round, the others go on without a machine
_LEAST_PATIENCE = 5.0  # seconds
_POLL_SECONDS = 0.2

# A function that is called several times a second with the reports that have come, and 0 seconds, or with the length
# of a longer silence in seconds before it begins; it may raise.
Attend = Callable[[dict[int, Found], float], None]


class Collector:
    """Collects the machines' reports, and records in `shards` when they came.

    attend  see `Attend` above
    """

    def __init__(self, machines: Machines, shards: list[ShardState], attend: Attend) -> None:
        self._machines, self._shards, self._attend = machines, shards, attend
        self._usual_seconds: dict[Order, float] = {}

    def collect(self, pending: set[int], order: Order, needs_all: bool, least: int = 1) -> dict[int, Found]:
        """Return reports on this order of the pending machines: of all, or of those in time, but `least` at least."""
        patience = max(_LEAST_PATIENCE, _PATIENCE * self._usual_seconds.get(order, inf))
        began = time.monotonic()
        come: dict[int, Found] = {}
        while pending - come.keys():
            self._attend(come, 0.0)
            left = [k for k in pending - come.keys() if not self._machines.is_lost(k)]
            is_late = time.monotonic() - began > patience
            if len(come) >= least and not needs_all and (is_late or not left):
                break
            for k, found in self._machines.wait(pending - come.keys(), _POLL_SECONDS).items():
                come[k] = found
                shard = self._shards[k]
                shard.counts, shard.seconds, shard.came = found.counts, found.seconds, time.monotonic()
                shard.sent_bytes += found.n_bytes
        for k in come:
            self._shards[k].waited += time.monotonic() - self._shards[k].came
        if come:
            self._usual_seconds[order] = float(np.median([found.seconds for found in come.values()]))
        return come


def total(come: Mapping[int, Found], name: str, lanes: int) -> Array:
    """Return the sum of a figure over these reports, (lanes,)."""
    return np.sum([getattr(found, name) for found in come.values()], axis=0) if come else np.zeros(lanes)


def extremes(come: Mapping[int, Found]) -> tuple[Array, Array]:
    """Return M+ and M-, each (lanes,), over the rows of these machines."""
    M_plus = np.max([found.M_plus for found in come.values()], axis=0)
    return M_plus, np.min([found.M_minus for found in come.values()], axis=0)


def certificate_at(w: Array, come: Mapping[int, Found], machines: int) -> LaneCertificate | None:
    """Return the certificate at w (features, axis) from all machines' reports on a LOOK; None: a report is missing."""
    if len(come) < machines or any(found.losses is None for found in come.values()):
        return None
    v = np.zeros_like(w)
    for found in come.values():
        assert found.own_w is not None
        v += found.own_w
    lanes = len(next(iter(come.values())).dual)
    w, v = w[:, :lanes], v[:, :lanes]
    P = dots(w, w) / 2.0 + total(come, "losses", lanes)
    D = total(come, "dual", lanes) - dots(v, v) / 2.0
    w_error = np.sqrt(dots(w - v, w - v)) / np.maximum(np.sqrt(dots(w, w)), 1e-300)
    return LaneCertificate(P, D, *extremes(come), w_error)


_NONE: Mapping[int, Array] = {}


class Coordinator:
    """Coordinates the machines of a job: `run` returns when the job has ended.

    width, axis   shape of w; the first `lanes` of its columns are lanes
    report        function that is called with this coordinator after each round
    is_stopping   function that returns whether a user has stopped the job
    pool          trains rows that do not rest after a round; None: rows are not pooled
    newton        ends training by Newton steps where these are quicker; None: there are rounds only
    attend        see `Attend` above
    model         the w of models, where this is not the w of alpha
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
        attend: Attend = lambda _come, _silence: None,
        pool: Pool | None = None,
        newton: Newton | None = None,
        model: ModelWeights | None = None,
    ) -> None:
        self._machines, self._rules, self._lanes = machines, rules, lanes
        self._report = report
        shape = (width, axis)
        self.w = np.zeros(shape)
        self._sum_of_shards = np.zeros(shape)  # differs from w by rounding
        self._total = np.zeros(shape)  # change of a round
        self.shards = [ShardState(np.zeros(shape), np.zeros(lanes)) for _ in range(len(machines))]
        self.round = rules.rounds_before
        self.D, self.step = np.zeros(lanes), np.ones(lanes)
        self._attend, self._collect = attend, Collector(machines, self.shards, attend).collect
        self.convergence = RoundConvergence(rules, lanes, is_stopping)
        self._pool, self.newton, self.model = pool, newton, model or ModelWeights()
        self._certified: Mapping[int, Array] = {}  # columns that took the place of those of w in the last certificate
        self.pooled_rows = self.pooled_updates = 0  # rows of the last round; updates of all rounds
        self.lacked_room = False  # for pooled rows

    def run(self) -> None:
        """Run rounds until the job has ended. Raises the errors of machines that cannot be started anew."""
        everyone = set(range(len(self.shards)))
        come = self._collect(everyone, Order.GO_ON, needs_all=True)
        self._join(come)
        self._answer(come, Order.GO_ON, None, is_whole=True)
        while self.convergence.stop_reason is None:
            has_steps = self.newton is not None and self.newton.is_next(self.shards)
            come = self._collect(everyone, Order.GO_ON, needs_all=has_steps or self._wants_look())
            self.round += 1
            self._end_round(come)
            self._report(self)

    @property
    def model_w(self) -> Array:
        """A copy of the w that has been certified."""
        return with_columns(self.w, self._certified).copy()

    def _end_round(self, come: dict[int, Found]) -> None:
        """Take the best step along the changes in these reports; then do what `_next_order` says, for all rows."""
        is_joined = self._join(come)
        change = self._agree(come)
        self._machines.keep(come)
        order = Order.GO_ON if is_joined else self._next_order(come)
        self._answer(come, order, change, is_whole=is_joined)
        self.pooled_rows, is_whole = 0, True
        if order is Order.GIVE:
            come = self._train_pooled(set(come))
        elif order is Order.NEWTON:
            come, is_whole = self._take_newton_steps(set(come))
        if order is not Order.GO_ON:
            self._look(set(come), needs_all=order is not Order.GIVE, is_whole=is_whole)

    def _next_order(self, come: dict[int, Found]) -> Order:
        """Return the order for the machines that have reported on a round; none of these has just started anew."""
        are_all, has_to_end = len(come) == len(self.shards), self.convergence.has_to_end(self.round)
        if self.newton and are_all and not has_to_end and self.newton.is_next(self.shards):
            if self.newton.has_begun or not self._wants_look():
                return Order.NEWTON
        elif self._pool and self.convergence.is_slow and not has_to_end and len(come) > 1:
            return Order.GIVE
        return Order.LOOK if are_all and self._wants_look() else Order.GO_ON

    def _look(self, asked: set[int], needs_all: bool, is_whole: bool = True) -> None:
        """Have these machines compute the figures of all their rows at the present w; then order them to go on or end.

        is_whole  w is the w of all machines' alpha: if all machines report, the figures are a certificate
        """
        come = self._collect(asked, Order.LOOK, needs_all)
        is_certified = is_whole and self._certify(come)
        self._join(come)
        is_over = self.convergence.stop_reason is not None
        self.model.settle(self.convergence.converged > 0, is_over)
        if is_over and is_certified and self.model.take_better(self.convergence.P_certified):
            self._answer(come, Order.LOOK, None, is_whole=True)
            come = self._collect(set(come), Order.LOOK, needs_all=True)
            self._certify(come)
            self._join(come)
        self._answer(come, Order.END if is_over else Order.GO_ON, None, is_whole=True)

    def _certify(self, come: Mapping[int, Found]) -> bool:
        """Take over the certificate of the model's w; return False if some machine has not looked at its rows there."""
        columns = self.model.columns()
        if (found := certificate_at(with_columns(self.w, columns), come, len(self.shards))) is not None:
            self.D, self._certified = found.dual_objective, columns  # D of the rounds had rounding errors
            self.convergence.certify(found, self.round)
        return found is not None

    def _take_newton_steps(self, everyone: set[int]) -> tuple[dict[int, Found], bool]:
        """Take Newton steps with all machines; return their last reports, and whether w is the w of their alpha."""
        assert self.newton is not None
        come = self._collect(everyone, Order.NEWTON, needs_all=True)

        def exchange(request: bytes) -> dict[int, Found]:
            answer = self._new_answer(Order.NEWTON, newton=request)
            for k in everyone:
                self._machines.answer(k, answer)
            come.update(self._collect(everyone, Order.NEWTON, needs_all=True))
            return come

        is_whole = not self._join(come) and self.newton.run(
            exchange, self, lambda silence: not self._has_to_end(come, silence), lambda: self._machines.keep(come)
        )
        self._join(come)
        self._answer(come, Order.LOOK, None, is_whole=True)
        return come, is_whole

    def _wants_look(self) -> bool:
        return self.convergence.wants_look(self.round, self.D)

    def _has_to_end(self, come: dict[int, Found], silence: float = 0.0) -> bool:
        self._attend(come, silence)
        return bool(self.convergence.has_to_end(self.round))

    def _train_pooled(self, asked: set[int]) -> dict[int, Found]:
        """Train the rows of these machines that do not rest, and send their alpha back. Return the last reports."""
        assert self._pool is not None
        alpha: Mapping[int, Array] = {}
        with self._pool.open() as pooled:
            come, are_all = pooled.fill(asked, self._collect, self._machines, self._new_answer(Order.GIVE))
            if not self._join(come) and are_all:
                share = share_of_gap(self.convergence.gap, self._rules.relative_gap, self.D)
                alpha = pooled.train(self.w, self.convergence.converged, share, lambda: self._has_to_end(come))
                if pooled.count and not alpha:
                    # The disk had no room for the pooled rows.
                    self._pool, self.lacked_room = replace(self._pool, most_bytes=self._pool.most_bytes // 2), True
            self.pooled_rows = pooled.count if alpha else 0
            self.pooled_updates += pooled.updates
        self._answer(come, Order.LOOK, None, is_whole=True, alpha=alpha)
        return come

    def _join(self, come: Mapping[int, Found]) -> bool:
        """Replace the parts of w that machines report as a whole; return whether one of them has started anew."""
        told = {k: found.own_w for k, found in come.items() if found.own_w is not None}
        for k, own_w in told.items():
            self.shards[k].w[:] = own_w
            if come[k].newton is None:
                self.shards[k].dual = come[k].dual
        if told:
            # Added up anew, so that rounding errors of earlier rounds are gone.
            self._sum_of_shards[:] = sum(shard.w for shard in self.shards)
            self.w[:] = self._sum_of_shards
        return any(found.has_begun_anew for found in come.values())

    def _agree(self, come: Mapping[int, Found]) -> Change:
        """Take the best step along the changes that these machines report; return the sum of the changes."""
        moved = {k: found for k, found in come.items() if found.own_w is None and found.exported is None}
        changes = np.subtract(self._sum_of_shards, self.w, out=self._total)  # rounding errors of earlier rounds
        for found in moved.values():
            found.change.add_to(changes)
        linear, square = (total(moved, name, self._lanes) for name in ("linear", "square"))
        agreed = Change.of(changes)
        changes[...] = 0.0
        agreed.add_to(changes)  # as machines decode it
        self.step = best_step(self.w[:, : self._lanes], changes[:, : self._lanes], linear, square)
        if self._rules.combine == "average" or self._rules.whole_steps:
            self.step = np.ones(self._lanes)
        by = along_axis(self.step, self.w)
        agreed.add_to(self.w, by)
        for k, found in moved.items():
            found.change.add_to(self.shards[k].w, by)
            found.change.add_to(self._sum_of_shards, by)
            self.shards[k].dual = found.dual + self.step * found.linear - self.step**2 * found.square / 2.0
        w = self.w[:, : self._lanes]
        self.D = sum(shard.dual for shard in self.shards) - dots(w, w) / 2.0
        if moved:
            gap = total(moved, "gap", self._lanes) if len(moved) == len(self.shards) else np.full(self._lanes, np.nan)
            self.convergence.meet(gap, *extremes(moved))
            if self.newton is not None and len(moved) == len(self.shards):
                self.newton.meet(self, moved)
        return agreed

    def _answer(
        self,
        come: Mapping[int, Found],
        order: Order,
        change: Change | None,
        is_whole: bool,
        alpha: Mapping[int, Array] = _NONE,
    ) -> None:
        own_w = with_columns(self.w, self.model.columns()) if order is Order.LOOK else self.w
        for k, found in come.items():
            shard = self.shards[k]
            # A machine that has missed a step, or has begun anew, gets all of w.
            whole = is_whole or shard.round != self.round - 1 or found.own_w is not None or own_w is not self.w
            shard.round = self.round
            agreed, w = (None, own_w) if whole else (change, None)
            self._machines.answer(k, self._new_answer(order, agreed, w, alpha.get(k)))

    def _new_answer(
        self,
        order: Order,
        change: Change | None = None,
        w: Array | None = None,
        alpha: Array | None = None,
        newton: bytes | None = None,
    ) -> OrderToMachine:
        most = self._pool.most_bytes // len(self.shards) if self._pool else 0
        sweeps = self.newton.most_sweeps if self.newton else 0
        return OrderToMachine(
            order, change, w, self.step, self.convergence.converged.copy(), alpha, most, sweeps, newton
        )
