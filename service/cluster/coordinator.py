"""Rounds of a job on several machines, from its beginning to its certificate.

Machines work on their own rows; then all take the best step along what they have changed together. w is at any time the
sum of their parts of it, so that one that is lost, or comes back with what it had some rounds ago, changes w by what
its part has changed, and nothing else. A machine that is late is waited for up to a bound; the step is then of the
others, and its change is part of a later one: the line search is exact whenever a change was begun.
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from service.cluster.combine import Momentum, along_axis, best_step, by_lane, dots
from service.cluster.messages import Answer, Change, Found
from service.cluster.parts import Certificate, Machines, Part, Rules
from storage.csr import Array
from storage.rounds import Order
from trainer.progress import relative_gap
from trainer.stop import CONVERGED

_LOOK_EVERY = 4  # rounds, where machines cannot tell how near they are
_PATIENCE = 4.0  # times what a round usually takes, until others go on without a machine
_LEAST_PATIENCE = 5.0  # seconds
_POLL_SECONDS = 0.2


class Coordinator:
    """`run` until the job has ended.

    width, lanes  shape of w; axis: of its last axis, 1: it has none
    report        receives what there is to say after each round
    is_stopping   whether somebody wants an end
    attend        is called several times a second with what has come of the round, and may raise
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
    ) -> None:
        self._machines, self._rules, self._lanes = machines, rules, lanes
        self._report, self._is_stopping, self._attend = report, is_stopping, attend
        shape = (width, axis) if axis > 1 else (width,)
        self.w = np.zeros(shape)
        self._sum_of_parts = np.zeros(shape)  # w, but for what rounding has left over
        self._total = np.zeros(shape)  # change of a round
        self.parts = [Part(np.zeros(shape), np.zeros(lanes)) for _ in range(len(machines))]
        self.round = 0
        self.D = np.zeros(lanes)
        self.gap = np.full(lanes, np.nan)  # estimated
        self.M_plus, self.M_minus = np.full(lanes, np.nan), np.full(lanes, np.nan)
        self.step = np.ones(lanes)
        self.certificate: Certificate | None = None
        self.P = np.full(lanes, np.inf)  # least that is known
        self.converged = np.zeros(lanes, np.int64)
        self.stop_reason: str | None = None
        self._momentum = Momentum(lanes)
        # What a look found, by what was met before it: sweeps over a part of the rows are too hopeful.
        self._hope = np.ones((2, lanes))
        self._last_look = 0
        self._began = time.monotonic()
        self._usual_seconds = 0.0

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> None:
        """Raises what the machines raise when there is no going on."""
        everyone, come = set(range(len(self.parts))), self._gather(set(range(len(self.parts))), needs_all=True)
        self._join(come)
        self._answer(come, Order.GO_ON, None, np.zeros(self._lanes), is_whole=True)
        while self.stop_reason is None:
            come = self._gather(everyone, needs_all=self._wants_look())
            self.round += 1
            is_joined = self._join(come)
            change = self._agree(come)
            self._machines.keep(come)
            is_looking = self._wants_look() and len(come) == len(everyone) and not is_joined
            order = Order.LOOK if is_looking else Order.GO_ON
            share = np.zeros(self._lanes) if is_joined else self._momentum.after(self.step, self.gap)
            share[self.converged > 0] = 0.0
            self._answer(come, order, change, share, is_whole=is_joined)
            if is_looking:
                self._look(everyone, share)
            self._report(self)

    def _look(self, everyone: set[int], share: Array) -> None:
        """Have all rows looked at, at the w of now; then go on, or end."""
        come = self._gather(everyone, needs_all=True)
        is_whole = all(found.losses is not None for found in come.values())
        if is_whole:
            self._certify(come)
        self._join(come)
        order = Order.GO_ON if self.stop_reason is None else Order.END
        # A lane that was found to have converged stays where it is.
        share = np.where(self.converged, 0.0, share) if is_whole else np.zeros(self._lanes)
        self._answer(come, order, None, share, is_whole=True)

    def _gather(self, pending: set[int], needs_all: bool) -> dict[int, Found]:
        """What machines have come to; all of them, or those that were not late."""
        began = time.monotonic()
        come: dict[int, Found] = {}
        while pending - come.keys():
            self._attend(come)
            left = [k for k in pending - come.keys() if not self._machines.is_lost(k)]
            late = time.monotonic() - began > max(_LEAST_PATIENCE, _PATIENCE * self._usual_seconds)
            if come and not needs_all and (late or not left):
                break
            for k, found in self._machines.wait(pending - come.keys(), _POLL_SECONDS).items():
                come[k] = found
                part = self.parts[k]
                part.counts, part.seconds, part.came = found.counts, found.seconds, time.monotonic()
                part.sent_bytes += found.change.n_bytes + (0 if found.own_w is None else found.own_w.nbytes)
        for k in come:
            self.parts[k].waited += time.monotonic() - self.parts[k].came
        self._usual_seconds = float(np.median([found.seconds for found in come.values()]))
        return come

    def _join(self, come: Mapping[int, Found]) -> bool:
        """Take in what machines say their part of w is; whether one of them has begun anew."""
        told = {k: found.own_w for k, found in come.items() if found.own_w is not None}
        for k, own_w in told.items():
            self.parts[k].w[:], self.parts[k].dual = own_w, come[k].dual
        if told:
            # All of it anew: what rounding has left over is gone, too.
            self._sum_of_parts[:] = sum(part.w for part in self.parts)
            self.w[:] = self._sum_of_parts
        return any(come[k].losses is None for k in told)

    def _agree(self, come: Mapping[int, Found]) -> Change:
        """Take the best step along what these have changed."""
        moved = {k: found for k, found in come.items() if found.own_w is None}
        total = np.subtract(self._sum_of_parts, self.w, out=self._total)  # what rounding has left over
        for found in moved.values():
            found.change.add_to(total)
        linear, square = (self._sum(moved, name) for name in ("linear", "square"))
        agreed = Change.of(total)
        total[...] = 0.0
        agreed.add_to(total)  # as all take it
        self.step = best_step(by_lane(self.w)[:, : self._lanes], by_lane(total)[:, : self._lanes], linear, square)
        if self._rules.combine == "average":
            self.step = np.ones(self._lanes)
        by = along_axis(self.step, self.w)
        agreed.add_to(self.w, by)
        for k, found in moved.items():
            found.change.add_to(self.parts[k].w, by)
            found.change.add_to(self._sum_of_parts, by)
            self.parts[k].dual = found.dual + self.step * found.linear - self.step**2 * found.square / 2.0
        self.D = sum(part.dual for part in self.parts) - self._half_norm()
        if moved:
            self.gap = self._sum(moved, "gap") if len(moved) == len(self.parts) else np.full(self._lanes, np.nan)
            self.M_plus = np.max([found.M_plus for found in moved.values()], axis=0)
            self.M_minus = np.min([found.M_minus for found in moved.values()], axis=0)
        return agreed

    def _certify(self, come: Mapping[int, Found]) -> None:
        P = self._half_norm() + self._sum(come, "losses")
        M_plus = np.max([found.M_plus for found in come.values()], axis=0)
        M_minus = np.min([found.M_minus for found in come.values()], axis=0)
        v = np.zeros_like(self.w)
        for found in come.values():
            assert found.own_w is not None
            v += found.own_w
        dual = sum(part.dual for part in self.parts)
        w, v = by_lane(self.w)[:, : self._lanes], by_lane(v)[:, : self._lanes]
        w_error = np.sqrt(dots(w - v, w - v)) / np.maximum(np.sqrt(dots(w, w)), 1e-300)
        self.certificate = Certificate(P, dual - dots(v, v) / 2.0, M_plus, M_minus, w_error)
        self.D = self.certificate.dual_objective  # what was known of it had been rounded
        gaps = M_plus - M_minus, P - self.certificate.dual_objective
        for number, (true, met) in enumerate(zip(gaps, (self.M_plus - self.M_minus, self.gap), strict=True)):
            self._hope[number] = np.maximum(1.0, np.divide(true, met, out=np.ones_like(true), where=met > 0.0))
        self.M_plus, self.M_minus, self.P = M_plus, M_minus, np.minimum(self.P, P)
        self._last_look = self.round
        self._decide()

    def _decide(self) -> None:
        """Which lanes have converged, and whether the job has ended."""
        found, rules = self.certificate, self._rules
        assert found is not None
        gap = found.M_plus - found.M_minus
        relative = [relative_gap(P, D) for P, D in zip(found.primal_objective, found.dual_objective, strict=True)]
        for lane in np.flatnonzero(self.converged == 0).tolist():
            checks = (gap, rules.tolerance), (np.array(relative), rules.relative_gap)
            for number, (now, wanted) in enumerate(checks, 1):
                if wanted is not None and now[lane] <= wanted:
                    self.converged[lane] = number
                    break
        if self.converged.all():
            self.stop_reason = CONVERGED[int(self.converged.max()) - 1]
        elif self._has_to_end():
            self.stop_reason = self._has_to_end()

    def _has_to_end(self) -> str | None:
        rules = self._rules
        if self.round >= rules.max_rounds:
            return "max_passes"
        if rules.max_seconds is not None and self.elapsed_seconds >= rules.max_seconds:
            return "max_seconds"
        return "stopped" if self._is_stopping() else None

    def _wants_look(self) -> bool:
        """Whether all rows should be looked at: a lane is likely to have converged, or the job has to end."""
        rules, left = self._rules, self.converged == 0
        if self._has_to_end():
            return True
        if self.round == 0 or (rules.tolerance, rules.relative_gap) == (None, None):
            return False
        if np.isnan(self.gap).any():
            return self.round - self._last_look >= _LOOK_EVERY
        near = np.zeros(self._lanes, bool)
        if rules.tolerance is not None:
            near |= self._hope[0] * (self.M_plus - self.M_minus) <= rules.tolerance
        if rules.relative_gap is not None:
            gap = self._hope[1] * self.gap
            near |= gap <= rules.relative_gap * (self.D + gap)
        return bool(near[left].any())

    def _answer(
        self, come: Mapping[int, Found], order: Order, change: Change | None, momentum: Array, is_whole: bool
    ) -> None:
        for k, found in come.items():
            part = self.parts[k]
            # Who has missed a step, or has begun anew, is told all of w.
            whole = is_whole or part.round != self.round - 1 or found.own_w is not None
            part.round = self.round
            agreed, w = (None, self.w) if whole else (change, None)
            self._machines.answer(k, Answer(order, agreed, w, self.step, momentum, self.converged.copy()))

    def _half_norm(self) -> Array:
        w = by_lane(self.w)[:, : self._lanes]
        return dots(w, w) / 2.0

    def _sum(self, come: Mapping[int, Found], name: str) -> Array:
        return np.sum([getattr(found, name) for found in come.values()], axis=0) if come else np.zeros(self._lanes)
