"""Newton steps over the rows of all machines: each machine answers requests about its shard, and this adds answers up.

The steps are those on one machine (trainer.newton). A request is one message to each machine, and w goes out with it.
So the steps take as many scans as on one machine, to the same optimum. Answers are added up in the order of machines:
the sums are the same each time.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from streamsvm.service.cluster.rounds.convergence import RoundConvergence
from streamsvm.service.cluster.rounds.messages import Found, Rules, ShardState
from streamsvm.service.jobs.fields.features import extra_values
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.machine.resources import memory_limit
from streamsvm.storage.rows.csr import Array
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
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.updates.convergence import StoppingTargets
from streamsvm.trainer.updates.model_weights import ModelWeights
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress, TaskStep

_SHARE_OF_MEMORY = 0.5
_MOST_VAIN = 3  # runs in a row that end before their first step, because a machine, or rows that it held, are lost
_HALF_MATRIX, _MATRIX = 4, 8  # bytes of an entry of a system, as a machine sends it, and here

Exchange = Callable[[bytes], Mapping[int, Found]]  # sends a request to all machines; returns all reports
# Gives a sign of life that covers the next seconds, as many as the argument says; returns whether the job goes on.
GoesOn = Callable[[float], bool]


class Rounds(Protocol):
    """The state of a job's rounds, which Newton steps read and change: that of its `Coordinator`."""

    w: Array
    D: Array
    round: int
    shards: list[ShardState]
    convergence: RoundConvergence
    model: ModelWeights


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

    n_values   number of values in all rows
    most       most equations of a system that the coordinator has room for
    show       function that is called with each step
    has_begun  `run` was called; has_failed: systems are too large, or a task is stuck, and only rounds remain
    slowdowns  codes of storage.run.slowdowns
    steps, scans  numbers of steps and scans made so far
    """

    def __init__(
        self,
        tasks: Tasks,
        rules: Rules,
        n_rows: int,
        n_values: float,
        n_features: int,
        most: int,
        show: Callable[[NewtonStep], None],
    ) -> None:
        self._tasks, self._most = tasks, most
        self._n_rows, self._n_values, self._n_features = n_rows, n_values, n_features
        self._targets = StoppingTargets(rules.tolerance, rules.relative_gap)
        self.has_begun, self.has_failed = False, not self._targets.is_bound
        self.slowdowns: set[str] = set()
        self.steps = self.scans = self._vain = 0
        self._show = show
        self._shown: list[NewtonStep] = []
        self._left: Mapping[int, Left] = {}  # task -> where its steps go on
        self._is_quicker = self._is_slower = False  # Newton steps than rounds; both False: not known

    @property
    def most_sweeps(self) -> int:
        """Most sweeps of the next round: enough to know at which rate gaps fall; 0: any number."""
        if self.has_failed or self._is_slower:
            return 0
        return 1 if self.has_begun else LEAST_SWEEPS

    def meet(self, now: Rounds, come: Mapping[int, Found]) -> None:
        """Take over the figures of a round in which all machines took part; decide whether Newton steps are next."""
        figures, trained = now.convergence, now.convergence.converged == 0
        rates = np.max([found.rate for found in come.values()], axis=0)[trained]
        sweeps = max(found.counts["sweeps_made"] for found in come.values())
        is_known = sweeps >= LEAST_SWEEPS and np.isfinite(np.append(rates, figures.gap)).all()
        if self.has_failed or self.has_begun or not is_known:
            return
        free = int(sum(found.counts["free_rows"] for found in come.values()))
        distance = figures.M_plus - figures.M_minus
        outlook = Outlook(
            rates=tuple(rates.tolist()),
            shares_left=tuple(
                shares_left(self._targets, distance, figures.gap, np.nan_to_num(now.D))[trained].tolist()
            ),
            visits=float(free),
            n_rows=self._n_rows,
            n_values=self._n_values,
            n_features=self._n_features,
            n_free=free,
        )
        self._is_quicker = is_newton_quicker_than_rounds(outlook, len(come))
        room = self._room(now.shards)
        if self._is_quicker and system_size(outlook) > room:
            self._is_quicker = False
            # A machine that does not hold all of its rows (room < 0) reports by itself why.
            self.slowdowns |= {"newton_without_room"} if room >= 0 else set()
        self._is_slower = not self._is_quicker

    def is_next(self, shards: Sequence[ShardState]) -> bool:
        """Return whether to make steps now: all machines hold all of their rows, and have room for a system."""
        wanted = self.has_begun or self._is_quicker
        return wanted and not self.has_failed and self._room(shards) > 0

    def run(self, exchange: Exchange, now: Rounds, goes_on: GoesOn, after_step: Callable[[], None]) -> bool:
        """Take Newton steps from the coordinator's w, which is the w of the machines' alpha; w changes in place.

        after_step  is called after each step
        Returns whether w is the w of alpha at the end: it is not if a machine, or rows that it held, were lost.
        """
        self.has_begun, most, before = True, self._room(now.shards), self.scans
        numbers = np.flatnonzero(now.convergence.converged == 0).tolist()

        def go_on(seconds: float) -> None:
            if not goes_on(seconds):
                raise _Ends

        try:
            steps = NewtonSteps(
                self._tasks, MachineRows(exchange), now.w, numbers, near_by(self._targets), most, self._left, go_on
            )
            try:
                while steps.active and goes_on(0.0):
                    taking_part = steps.taking_part()
                    steps.step()
                    self._put_back(steps, now)
                    self.scans = before + steps.scans
                    self._note(now, taking_part)
                    after_step()
            except _Ends:
                self._put_back(steps, now)
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

    def take_shown(self) -> list[NewtonStep]:
        """Return the steps made since the last call."""
        shown, self._shown = self._shown, []
        return shown

    def _put_back(self, steps: NewtonSteps, now: Rounds) -> None:
        """Set the coordinator's w and figures to the values that the steps have reached; offer the model the best w."""
        reached, figures = steps.put_back(), now.convergence
        steps.offer_best(now.model)
        self._left = steps.left()
        for (number, task), found in zip(steps.each.items(), reached, strict=True):
            now.D[number] = found.dual - float(task.centre_w @ task.centre_w) / 2.0
            figures.M_plus[number], figures.M_minus[number] = task.found.M_plus, task.found.M_minus
            figures.P[number] = min(figures.P[number], task.primal)
            figures.gap[number] = task.primal - now.D[number]

    def _note(self, now: Rounds, taking_part: Mapping[int, TaskStep]) -> None:
        """Record the step that was made, for the history, and show it."""
        self.steps += 1
        figures, free = now.convergence, max(task.rows for task in taking_part.values())
        each = tuple(
            PassProgress(now.round, 0, *each, free_rows=free)
            for each in zip(
                figures.M_plus.tolist(), figures.M_minus.tolist(), [0] * len(now.D), now.D.tolist(), figures.P.tolist(),
                strict=True,
            )
        )  # fmt: skip
        worst = max(each, key=lambda lane: lane.gap)
        found = worst if len(each) == 1 else replace(worst, lanes=each)
        step = NewtonStep(self.steps, figures.elapsed_seconds, self.scans, found, taking_part)
        self._shown.append(step)
        self._show(step)

    def _give_up(self, because: str) -> None:
        self.has_failed = True
        self.slowdowns.add(because)

    def _room(self, shards: Sequence[ShardState]) -> int:
        """Return the most equations that all have room for; -1: a machine does not hold all of its rows."""
        return min(self._most, *(int(shard.counts.get("newton_equations", -1)) for shard in shards))


def newton_for(
    plan: JobPlan,
    rules: Rules,
    machines: int,
    show: Callable[[NewtonStep], None] = lambda _: None,
    room: int | None = None,
) -> Newton | None:
    """Return the Newton steps of a job on `machines` machines; None: machines train alone, and results are averaged.

    room  bytes that the coordinator may hold; None: a share of this machine's memory
    """
    if plan.spec.combine == "average":
        return None
    manifest, maps = plan.manifest, plan.maps
    row_values = manifest.nnz / max(1, manifest.n_rows) + extra_values(plan.spec)
    values = manifest.n_rows * (maps.width if len(maps.late) else row_values)
    room = int(_SHARE_OF_MEMORY * memory_limit()) if room is None else room
    most = equations_here(room, len(plan.running), machines)
    return Newton(plan.tasks, rules, manifest.n_rows, values, plan.width, most, show)


def equations_here(room: int, n_tasks: int, machines: int) -> int:
    """Return the most equations of a system for which `room` bytes are enough on the coordinator.

    It holds the systems that machines have sent, their sum, one that is being added, and one that is being solved.
    """
    each = n_tasks * (machines * _HALF_MATRIX + 2 * _MATRIX) + _MATRIX
    return min(LARGEST, int((room / each) ** 0.5))
