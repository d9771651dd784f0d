"""Newton steps over the rows of all machines: each machine answers requests about its shard, and this adds answers up.

The steps are those on one machine (trainer.newton). A request is one message to each machine, and w goes out with it.
So the steps take as many scans as on one machine, to the same optimum. Answers are added up in the order of machines:
the sums are the same each time.
"""

import pickle
from collections.abc import Callable, Mapping

import numpy as np

from streamsvm.service.cluster.rounds.convergence import RoundConvergence
from streamsvm.service.jobs.fields.features import extra_values
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.machine.resources import memory_limit
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.distributed.messages import Report
from streamsvm.trainer.newton.choice import (
    LEAST_SWEEPS,
    Outlook,
    is_newton_quicker_than_rounds,
    shares_left,
    system_size,
)
from streamsvm.trainer.newton.requests import Reply, Request, added, unpickled
from streamsvm.trainer.newton.run import NewtonSteps, near_by
from streamsvm.trainer.newton.scans import Interrupted
from streamsvm.trainer.newton.system import LARGEST, TooLarge
from streamsvm.trainer.newton.task import Left
from streamsvm.trainer.updates.model_weights import ModelWeights
from streamsvm.trainer.updates.progress import NewtonStep, TaskStep

_SHARE_OF_MEMORY = 0.5
_MOST_VAIN = 3  # runs in a row that end before their first step, because a machine, or rows that it held, are lost
_HALF_MATRIX, _MATRIX = 4, 8  # bytes of an entry of a system, as a machine sends it, and here

Exchange = Callable[[bytes], Mapping[int, Report]]  # sends a request to all machines; returns all reports


class _Ends(Exception):
    """Raised while a system is being solved, if the job has to end."""


class MachineRows:
    """All rows, on machines: `trainer.newton.requests.ProblemRows`. Raises Interrupted if a machine lacks rows."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def answer(self, request: Request) -> Reply:
        come = self._exchange(pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        told = [come[number].newton for number in sorted(come)]
        if not all(told):
            raise Interrupted
        return added(unpickled(each) for each in told if each)  # one at a time: systems may be large


class Newton:
    """The Newton steps of a job: `meet` takes the figures of each round, `run` makes steps once `is_next` is true.

    Callers tell the most `equations` of a system that all machines have room for; -1: one lacks some of its rows.

    show       function that is called with each step
    has_begun  `run` was called; has_failed: systems are too large, or a task is stuck, and only rounds remain
    slowdowns  codes of storage.run.slowdowns
    steps, scans  numbers of steps and scans made so far
    """

    def __init__(
        self,
        plan: JobPlan,
        convergence: RoundConvergence,
        machines: int,
        show: Callable[[NewtonStep], None] = lambda _: None,
    ) -> None:
        self._plan, self._now, self._machines, self._show = plan, convergence, machines, show
        room = int(_SHARE_OF_MEMORY * memory_limit())
        self._most = equations_here(room, len(plan.running), machines)
        self.has_begun, self.has_failed = False, not convergence.targets.is_bound
        self.slowdowns: set[str] = set()
        self.steps = self.scans = self._vain = 0
        self._left: Mapping[int, Left] = {}  # task -> where its steps go on
        self._is_quicker = self._is_slower = False  # Newton steps than rounds; both False: not known

    @property
    def most_sweeps(self) -> int:
        """Most sweeps of the next round: enough to know at which rate gaps fall; 0: any number."""
        if self.has_failed or self._is_slower:
            return 0
        return 1 if self.has_begun else LEAST_SWEEPS

    def meet(self, come: Mapping[int, Report], equations: int) -> None:
        """Take over the figures of a round in which all machines took part; decide whether Newton steps are next."""
        now, plan = self._now, self._plan
        trained = now.converged == 0
        rates = np.max([report.rate for report in come.values()], axis=0)[trained]
        sweeps = max(report.counts["sweeps_made"] for report in come.values())
        is_known = sweeps >= LEAST_SWEEPS and np.isfinite(np.append(rates, now.gap)).all()
        if self.has_failed or self.has_begun or not is_known:
            return
        free = int(sum(report.counts["free_rows"] for report in come.values()))
        shares = shares_left(now.targets, now.M_plus - now.M_minus, now.gap, np.nan_to_num(now.D))
        outlook = Outlook(
            rates=tuple(rates.tolist()),
            shares_left=tuple(shares[trained].tolist()),
            visits=float(free),
            n_rows=plan.n_rows,
            n_values=_values_in(plan),
            n_features=plan.width,
            n_free=free,
        )
        self._is_quicker = is_newton_quicker_than_rounds(outlook, self._machines)
        if self._is_quicker and system_size(outlook) > min(self._most, equations):
            self._is_quicker = False
            # A machine that does not hold all of its rows reports by itself why.
            self.slowdowns |= {"newton_without_room"} if equations >= 0 else set()
        self._is_slower = not self._is_quicker

    def is_next(self, equations: int) -> bool:
        """Return whether to make steps now: all machines hold all of their rows, and have room for a system."""
        wanted = self.has_begun or self._is_quicker
        return wanted and not self.has_failed and min(self._most, equations) > 0

    def run(
        self,
        exchange: Exchange,
        w: Array,
        model: ModelWeights,
        equations: int,
        goes_on: Callable[[float], bool],
        after_step: Callable[[], None],
    ) -> bool:
        """Take Newton steps from w, which is the w of the machines' alpha; w changes in place.

        goes_on     gives a sign of life that covers the next seconds, its argument; returns whether the job goes on
        after_step  is called after each step
        Returns whether w is the w of alpha at the end: it is not if a machine, or rows that it held, were lost.
        """
        self.has_begun, most, before = True, min(self._most, equations), self.scans
        numbers = np.flatnonzero(self._now.converged == 0).tolist()

        def go_on(seconds: float) -> None:
            if not goes_on(seconds):
                raise _Ends

        try:
            is_near, rows = near_by(self._now.targets), MachineRows(exchange)
            steps = NewtonSteps(self._plan.tasks, rows, w, numbers, is_near, most, self._left, go_on)
            try:
                while steps.active and goes_on(0.0):
                    taking_part = steps.taking_part()
                    steps.step()
                    self._put_back(steps, model)
                    self.scans = before + steps.scans
                    self._note(taking_part)
                    after_step()
            except _Ends:
                self._put_back(steps, model)
            except TooLarge:
                self._give_up("newton_given_up" if most == LARGEST else "newton_without_room")
        except Interrupted:
            self._vain = 0 if self.scans > before else self._vain + 1
            if self._vain == _MOST_VAIN:
                self._give_up("newton_given_up")
            return False
        if any(task.is_stuck for task in steps.each.values()):
            self._give_up("newton_given_up")
        return True

    def _put_back(self, steps: NewtonSteps, model: ModelWeights) -> None:
        """Set w and the job's figures to the values that the steps have reached; offer the model the best w."""
        reached, now = steps.put_back(), self._now
        steps.offer_best(model)
        self._left = steps.left()
        for (number, task), found in zip(steps.each.items(), reached, strict=True):
            now.D[number] = found.dual - float(task.centre_w @ task.centre_w) / 2.0
            now.M_plus[number], now.M_minus[number] = task.found.M_plus, task.found.M_minus
            now.P[number] = min(now.P[number], task.primal)
            now.gap[number] = task.primal - now.D[number]

    def _note(self, taking_part: Mapping[int, TaskStep]) -> None:
        """Show the step that was made."""
        self.steps += 1
        found = self._now.progress(max(task.rows for task in taking_part.values()))
        self._show(NewtonStep(self.steps, self._now.elapsed_seconds, self.scans, found, taking_part))

    def _give_up(self, because: str) -> None:
        self.has_failed = True
        self.slowdowns.add(because)


def equations_here(room: int, n_tasks: int, machines: int) -> int:
    """Return the most equations of a system for which `room` bytes are enough on the coordinator.

    It holds the systems that machines have sent, their sum, one that is being added, and one that is being solved.
    """
    each = n_tasks * (machines * _HALF_MATRIX + 2 * _MATRIX) + _MATRIX
    return min(LARGEST, int((room / each) ** 0.5))


def _values_in(plan: JobPlan) -> float:
    """Return the number of values in all rows, once maps have made their features."""
    manifest, maps = plan.manifest, plan.maps
    row_values = manifest.nnz / max(1, manifest.n_rows) + extra_values(plan.spec)
    return manifest.n_rows * (maps.width if len(maps.late) else row_values)
