"""Rounds of a job on several machines, from its beginning to its certificate.

In a round each machine trains on its own rows. The coordinator adds up the changes of w and takes the best step along
the sum. w is the sum of one part for each machine: if a machine dies and comes back with an older alpha, only its part
is replaced. The coordinator waits for a late machine for some time only; that machine's change then enters a later
round, so that the line search stays exact. Once rounds bring little, rows that do not rest are trained by the
coordinator after each round (trainer.distributed.pool), or all machines take Newton steps together (see newton).
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from streamsvm.reader.certificate.final_pass import FinalFigures
from streamsvm.service.cluster.machine.shard_run import has_whole_steps
from streamsvm.service.cluster.nodes.ray_machines import RayMachines
from streamsvm.service.cluster.rounds.convergence import RoundConvergence, best_step, dots
from streamsvm.service.cluster.rounds.newton import Newton
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.distributed.messages import Activity, Change, Order, Report
from streamsvm.trainer.distributed.pool import Pool
from streamsvm.trainer.updates.model_weights import ModelWeights, with_columns

_PATIENCE = 4.0  # after this many times the usual seconds of a round, the others go on without a machine
_LEAST_PATIENCE = 5.0  # seconds
_POLL_SECONDS = 0.2
_NONE: Mapping[int, Array] = {}

# A function that is called several times a second with the reports that have come, and 0 seconds, or with the length
# of a longer silence in seconds before it begins; it may raise.
Attend = Callable[[Mapping[int, Report], float], None]


@dataclass
class ShardState:
    """A machine's shard at the end of the last step: its part of w, and its part of D without |w|^2 / 2."""

    w: Array
    dual: Array
    counts: Mapping[str, float] = field(default_factory=dict)
    round: int = -1  # the round whose w it has
    seconds: float = 0.0
    waited: float = 0.0  # seconds for other machines, in all
    sent_bytes: int = 0
    came: float = 0.0


class Coordinator:
    """Coordinates the machines of a job: `run` returns when the job has ended.

    report        function that is called with this coordinator after each round
    attend        see `Attend` above
    pool          trains rows that do not rest after a round; None: rows are not pooled
    newton        ends training by Newton steps where these are quicker; None: there are rounds only
    model         the w of models, where this is not the w of alpha
    """

    def __init__(
        self,
        machines: RayMachines,
        plan: JobPlan,
        convergence: RoundConvergence,
        report: Callable[["Coordinator"], None],
        attend: Attend = lambda _come, _silence: None,
        pool: Pool | None = None,
        newton: Newton | None = None,
        model: ModelWeights | None = None,
    ) -> None:
        self._machines, self.convergence = machines, convergence
        self._report, self._attend = report, attend
        self._pool, self.newton, self.model = pool, newton, model or ModelWeights()
        self._has_whole_steps = plan.spec.combine == "average" or has_whole_steps(plan.spec, plan.manifest)
        self._lanes, shape = len(plan.running), (plan.width, plan.tasks.width)
        # The sum of all shards differs from w by rounding. The change is that of a round.
        self.w, self._sum_of_shards, self._change = np.zeros((3, *shape))
        self.shards = [ShardState(np.zeros(shape), np.zeros(self._lanes)) for _ in range(len(machines))]
        self.step = np.ones(self._lanes)
        self._usual_seconds: dict[Activity, float] = {}
        self._certified: Mapping[int, Array] = {}  # columns that took the place of those of w in the last certificate
        self.pooled_rows = self.pooled_updates = 0  # rows of the last round; updates of all rounds
        self.lacked_room = False  # for pooled rows

    def run(self) -> None:
        """Run rounds until the job has ended. Raises the errors of machines that cannot be started anew."""
        everyone, now = set(range(len(self.shards))), self.convergence
        come = self._collect(everyone, Activity.TRAIN, needs_all=True)
        self._join(come)
        self._send(come, Activity.TRAIN)
        while now.stop_reason is None:
            has_steps = self.newton is not None and self.newton.is_next(self._equations)
            come = self._collect(everyone, Activity.TRAIN, needs_all=has_steps or now.wants_look())
            now.round += 1
            self._end_round(come)
            self._report(self)

    @property
    def model_w(self) -> Array:
        """A copy of the w that has been certified."""
        return with_columns(self.w, self._certified).copy()

    @property
    def _equations(self) -> int:
        """The most equations that all machines have room for; -1: a machine does not hold all of its rows."""
        return min(int(shard.counts.get("newton_equations", -1)) for shard in self.shards)

    def _end_round(self, come: dict[int, Report]) -> None:
        """Take the best step along the changes in these reports; then do what `_next_work` says, for all rows."""
        has_joined = self._join(come)
        change = self._agree(come)
        self._machines.keep(come)
        work = Activity.TRAIN if has_joined else self._next_work(come)
        self._send(come, work, None if has_joined else change)
        self.pooled_rows, is_whole = 0, True
        if work is Activity.GIVE:
            come = self._train_pooled(set(come))
        elif work is Activity.NEWTON:
            come, is_whole = self._take_newton_steps(set(come))
        if work is not Activity.TRAIN:
            self._look(set(come), needs_all=work is not Activity.GIVE, is_whole=is_whole)

    def _next_work(self, come: dict[int, Report]) -> Activity:
        """Return the work for the machines that have reported on a round; none of these has just started anew."""
        now, are_all = self.convergence, len(come) == len(self.shards)
        has_to_end = now.has_to_end()
        if self.newton and are_all and not has_to_end and self.newton.is_next(self._equations):
            if self.newton.has_begun or not now.wants_look():
                return Activity.NEWTON
        elif self._pool and now.is_slow and not has_to_end and len(come) > 1:
            return Activity.GIVE
        return Activity.LOOK if are_all and now.wants_look() else Activity.TRAIN

    def _look(self, asked: set[int], needs_all: bool, is_whole: bool) -> None:
        """Have these machines compute the figures of all their rows at the present w; then order them to go on or end.

        is_whole  w is the w of all machines' alpha: if all machines report, the figures are a certificate
        """
        come = self._collect(asked, Activity.LOOK, needs_all)
        certificate = self._certify(come) if is_whole else None
        self._join(come)
        is_over = self.convergence.stop_reason is not None
        self.model.settle(self.convergence.converged > 0, is_over)
        if is_over and certificate and self.model.take_better(certificate.primal_objective):
            self._send(come, Activity.LOOK)
            come = self._collect(set(come), Activity.LOOK, needs_all=True)
            self._certify(come)
            self._join(come)
        self._send(come, Activity.END if is_over else Activity.TRAIN)

    def _certify(self, come: Mapping[int, Report]) -> FinalFigures | None:
        """Take over the certificate of the model's w; return it, or None if a machine has not looked at its rows."""
        losses = [report.losses for report in come.values() if report.losses is not None]
        if len(losses) < len(self.shards):
            return None
        columns = self.model.columns()
        v = sum(report.own_w for report in come.values() if report.own_w is not None)
        w, v = (each[:, : self._lanes] for each in (with_columns(self.w, columns), np.asarray(v)))
        P, D = sum(losses) + dots(w, w) / 2.0, _total(come, "dual") - dots(v, v) / 2.0
        w_error = np.sqrt(dots(w - v, w - v)) / np.maximum(np.sqrt(dots(w, w)), 1e-300)
        found = FinalFigures(P, D, *_extremes(come), w_error)
        self._certified = columns
        self.convergence.certify(found)
        return found

    def _take_newton_steps(self, everyone: set[int]) -> tuple[dict[int, Report], bool]:
        """Take Newton steps with all machines; return their last reports, and whether w is the w of their alpha."""
        assert self.newton is not None
        come = self._collect(everyone, Activity.NEWTON, needs_all=True)

        def exchange(request: bytes) -> dict[int, Report]:
            self._tell(everyone, Activity.NEWTON, newton=request)
            come.update(self._collect(everyone, Activity.NEWTON, needs_all=True))
            return come

        def goes_on(silence: float) -> bool:
            return not self._has_to_end(come, silence)

        is_whole = not self._join(come) and self.newton.run(
            exchange, self.w, self.model, self._equations, goes_on, lambda: self._machines.keep(come)
        )
        self._join(come)
        self._send(come, Activity.LOOK)
        return come, is_whole

    def _has_to_end(self, come: Mapping[int, Report], silence: float = 0.0) -> bool:
        self._attend(come, silence)
        return bool(self.convergence.has_to_end())

    def _train_pooled(self, asked: set[int]) -> dict[int, Report]:
        """Train the rows of these machines that do not rest, and send their alpha back. Return the last reports."""
        assert self._pool is not None
        come, alpha, pending = dict[int, Report](), _NONE, asked
        with self._pool as pool:
            while pending:
                answered = self._collect(pending, Activity.GIVE, needs_all=False, least=0 if come else 1)
                come |= answered
                pending = set()
                for k, report in answered.items():
                    if report.segments and report.alpha is not None:
                        pool.add(k, report.segments, report.alpha)
                        pending.add(k)
                self._tell(pending, Activity.GIVE)
            # A machine that is late has not told all of its rows.
            ready = {k: report for k, report in come.items() if not report.segments}
            if not self._join(ready) and len(ready) == len(come):
                share, is_over = self.convergence.share_of_gap(), lambda: self._has_to_end(ready)
                alpha = pool.train(self.w, self.convergence.converged, share, is_over)
                if pool.count and not alpha:
                    # The disk had no room for the pooled rows.
                    pool.most_bytes //= 2
                    self.lacked_room = True
            self.pooled_rows = pool.count if alpha else 0
            self.pooled_updates += pool.updates
        self._send(ready, Activity.LOOK, alpha=alpha)
        return ready

    def _join(self, come: Mapping[int, Report]) -> bool:
        """Replace the parts of w that machines report as a whole; return whether one of them has started anew."""
        told = {k: report.own_w for k, report in come.items() if report.own_w is not None}
        for k, own_w in told.items():
            self.shards[k].w[:] = own_w
            if come[k].work is not Activity.NEWTON:
                self.shards[k].dual = come[k].dual
        if told:
            # Added up anew, so that rounding errors of earlier rounds are gone.
            self._sum_of_shards[:] = sum(shard.w for shard in self.shards)
            self.w[:] = self._sum_of_shards
        return any(report.work is None for report in come.values())

    def _agree(self, come: Mapping[int, Report]) -> Change:
        """Take the best step along the changes that these machines report; return the sum of the changes."""
        moved = {k: (report, report.change) for k, report in come.items() if report.change is not None}
        reports, now = {k: report for k, (report, _) in moved.items()}, self.convergence
        changes = np.subtract(self._sum_of_shards, self.w, out=self._change)  # rounding errors of earlier rounds
        for _, change in moved.values():
            change.add_to(changes)
        agreed = Change.of(changes)
        changes[...] = 0.0
        agreed.add_to(changes)  # as machines decode it
        w, sums = self.w[:, : self._lanes], [_total(reports, name, self._lanes) for name in ("linear", "square")]
        self.step = np.ones(self._lanes) if self._has_whole_steps else best_step(w, changes[:, : self._lanes], *sums)
        by = np.zeros(self.w.shape[1])  # columns of padding do not change
        by[: self._lanes] = self.step
        agreed.add_to(self.w, by)
        for k, (report, change) in moved.items():
            change.add_to(self.shards[k].w, by)
            change.add_to(self._sum_of_shards, by)
            self.shards[k].dual = report.dual + self.step * report.linear - self.step**2 * report.square / 2.0
        now.D = sum(shard.dual for shard in self.shards) - dots(w, w) / 2.0
        if moved:
            are_all = len(moved) == len(self.shards)
            now.meet(_total(reports, "gap") if are_all else np.full(self._lanes, np.nan), *_extremes(reports))
            if self.newton is not None and are_all:
                self.newton.meet(reports, self._equations)
        return agreed

    def _send(
        self,
        come: Mapping[int, Report],
        work: Activity,
        change: Change | None = None,
        alpha: Mapping[int, Array] = _NONE,
    ) -> None:
        """Give the machines of these reports an order, with the change that the round has agreed on, or with all of w.

        A machine that has missed a step, or has not trained, gets all of w.
        """
        w, before = self.w, self.convergence.round - 1
        if work is Activity.LOOK:
            w = with_columns(w, self.model.columns())
        in_step = {k for k, report in come.items() if self.shards[k].round == before and report.change is not None}
        told = in_step if change is not None and w is self.w else set()
        self._tell(told, work, alpha, change=change)
        self._tell(come.keys() - told, work, alpha, w=w)
        for k in come:
            self.shards[k].round = self.convergence.round

    def _tell(self, numbers: Collection[int], work: Activity, alpha: Mapping[int, Array] = _NONE, **about: Any) -> None:
        if numbers:
            most = self._pool.most_bytes // len(self.shards) if self._pool else 0
            sweeps = self.newton.most_sweeps if self.newton else 0
            order = Order(work, self.step, self.convergence.converged.copy(), most, sweeps, **about)
            self._machines.send(numbers, order, alpha)

    def _collect(self, pending: set[int], work: Activity, needs_all: bool, least: int = 1) -> dict[int, Report]:
        """Return reports on this work of the pending machines: of all, or of those in time, but `least` at least."""
        patience = max(_LEAST_PATIENCE, _PATIENCE * self._usual_seconds.get(work, inf))
        began = time.monotonic()
        come: dict[int, Report] = {}
        while pending - come.keys():
            self._attend(come, 0.0)
            left = [k for k in pending - come.keys() if not self._machines.is_lost(k)]
            is_late = time.monotonic() - began > patience
            if len(come) >= least and not needs_all and (is_late or not left):
                break
            for k, report in self._machines.wait(pending - come.keys(), _POLL_SECONDS).items():
                come[k] = report
                shard = self.shards[k]
                shard.counts, shard.seconds, shard.came = report.counts, report.seconds, time.monotonic()
                shard.sent_bytes += report.n_bytes
        for k in come:
            self.shards[k].waited += time.monotonic() - self.shards[k].came
        if come:
            self._usual_seconds[work] = float(np.median([report.seconds for report in come.values()]))
        return come


def _total(come: Mapping[int, Report], name: str, lanes: int = 0) -> Array:
    """Return the sum of a figure over these reports, (lanes,)."""
    return np.sum([getattr(report, name) for report in come.values()], axis=0) if come else np.zeros(lanes)


def _extremes(come: Mapping[int, Report]) -> tuple[Array, Array]:
    """Return M+ and M-, each (lanes,), over the rows of these machines."""
    M_plus = np.max([report.M_plus for report in come.values()], axis=0)
    return M_plus, np.min([report.M_minus for report in come.values()], axis=0)
