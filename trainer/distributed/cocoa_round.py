"""The round that ends a pass of a shard's trainer: it reports how alpha has changed, and takes the step agreed on.

See storage.run.rounds. Along the sum of all machines' changes of alpha, D is a parabola, and the box is convex. So the
best step between 0 and 1 follows from two numbers of each machine and the changes of w (Lee, Roth, "Distributed
box-constrained quadratic optimization for dual linear SVM", ICML 2015).
"""

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import NEWTON_REPLY, NEWTON_REQUEST, Order, RoundState
from streamsvm.trainer.distributed.active_row_export import ActiveRowExport
from streamsvm.trainer.newton.own_rows import OwnRows
from streamsvm.trainer.newton.requests import Looked, Reply, Request, Slope
from streamsvm.trainer.newton.scans import InOrder, Interrupted, Scans, uninterrupted
from streamsvm.trainer.newton.system import TooLarge
from streamsvm.trainer.problem.losses import box_of
from streamsvm.trainer.problem.tasks import Tasks
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.sweeps.sweep import ALONE, Threads
from streamsvm.trainer.updates.momentum import rate
from streamsvm.trainer.updates.statistics import DualStatistics


class ShardRows:
    """Answers requests of Newton steps on a shard: `answer` each, then `forget` what the steps hold for each row.

    alpha (n_rows, width) is the trainer's: `settings.shards` times alpha of the whole problem, as C is. So m is that of
    the problem, and sums over rows are `settings.shards` times those of the problem.
    """

    def __init__(self, directory: Path, settings: TrainerSettings, shared: SharedState, alpha: Array) -> None:
        self._directory, self._settings, self._shared, self._alpha = directory, settings, shared, alpha
        self._store: Callable[[], InOrder | None] = lambda: None
        self._threads = ALONE
        self._rows: OwnRows | None = None

    def rows_from(self, store: Callable[[], InOrder | None], threads: Threads) -> None:
        """Set the source of rows: `store` returns the store that has all rows of the shard, or None."""
        self._store, self._threads = store, threads

    @property
    def equations(self) -> int:
        """Most equations that a system may have; -1 if no store has all rows of the shard."""
        return self._settings.newton_equations if self._store() is not None else -1

    def answer(self) -> None:
        """Answer the request that has come, if any: write a pickled Reply, or TooLarge if a system would be too large.

        The file of the reply is empty if the store fails, or the disk has no room for the reply.
        """
        asked, reply = self._directory / NEWTON_REQUEST, b""
        if asked.exists():
            request: Request = pickle.loads(asked.read_bytes())
            asked.unlink()
            reply = self._reply(request)
        path = self._directory / NEWTON_REPLY
        try:
            path.write_bytes(reply)
        except OSError:
            path.write_bytes(b"")

    def forget(self) -> None:
        """Free the memory that Newton steps hold for each row."""
        self._rows = None

    def _reply(self, request: Request) -> bytes:
        store, settings = self._store(), self._settings
        if store is None:
            return b""
        if request.begins or self._rows is None:
            scans = Scans(
                store, len(self._alpha), settings.visited, self._threads, partial(uninterrupted, self._shared)
            )
            self._rows = OwnRows(settings.tasks, scans, self._alpha, settings.width)
        try:
            found = self._rows.answer(request)
        except Interrupted:
            return b""
        except TooLarge as error:
            return pickle.dumps(error)
        return pickle.dumps(_divided(found, settings.shards), pickle.HIGHEST_PROTOCOL)


def _divided(reply: Reply, shards: int) -> Reply:
    """Return the reply with sums as in the whole problem: divided by `shards`."""
    for system in reply.systems.values():
        system.scale(1.0 / shards)
    return replace(
        reply,
        v=None if reply.v is None else reply.v / shards,
        looks={number: _looked(looked, shards) for number, looked in reply.looks.items()},
    )


def _looked(looked: Looked, shards: int) -> Looked:
    if isinstance(looked, Slope):
        return Slope(*(total / shards for total in looked))
    sums = ("losses", "dual", "alpha", "moved")
    return tuple(each._replace(**{name: getattr(each, name) / shards for name in sums}) for each in looked)


_PART_ROWS = 1 << 16


class Round:
    """Rounds of a shard's trainer: call `end` at each. It changes alpha (n_rows, width) and w (features, width).

    tasks      tasks of the run; rows of both signs must have the same curvature D
    export     exports rows that do not rest when the coordinator asks for them
    newton     answers requests of Newton steps
    statistics the solver's statistics, once it has begun: if `whole_steps`, D is computed from them
    """

    def __init__(
        self,
        shared: SharedState,
        state: RoundState,
        alpha: Array,
        w: Array,
        tasks: Tasks,
        export: ActiveRowExport,
        newton: ShardRows,
        whole_steps: bool = False,
    ) -> None:
        self._shared, self._state, self.export, self.newton = shared, state, export, newton
        self._alpha, self._w, self._whole_steps = alpha, w, whole_steps
        self.statistics: DualStatistics | None = None
        # A column that only fills the axis of tasks has no rows: U and D are 0.
        self._U, self._D = np.zeros((2, tasks.width))
        for place, task in enumerate(tasks.each):
            U, _ = box_of(tasks.loss, np.array([min(task.C_positive, task.C_negative)]))
            _, D = box_of(tasks.loss, np.array([task.C_positive]))
            self._U[place], self._D[place] = U[0], D[0]
        self._before = alpha.copy()
        self._gap, self._rate = np.full((2, tasks.n_figures), np.nan)

    def meet(self, gaps: list[Array]) -> None:
        """Take in the gap P - D (n_figures,), as each sweep of the round has added it up, for the next report."""
        if gaps:
            self._gap = gaps[0]
        if len(gaps) > 1:
            self._rate = np.array([rate(each) for each in np.array(gaps).T.tolist()])

    def end(self) -> bool:
        """Report the changes to the agent, follow its orders and take the agreed step; return whether to go on."""
        self._tell()
        order = self._ask()
        self._take_over()
        while order in (Order.LOOK, Order.GIVE, Order.NEWTON):
            if order is Order.NEWTON:
                order = self._take_newton_steps()
                continue
            if order is Order.GIVE:
                self.export.write_some(int(self._state.counts[0]["most_bytes"]))
                self._shared.slow_down(self.export.slowdowns)
            else:
                self._take_alpha()
                self._tell()
                self._shared.certify(self._w)
            order = self._ask()
            self._w[:] = self._shared.scratch_w
        self.export.forget()  # if this machine was late, its exported rows have not been used
        return order is Order.GO_ON

    @property
    def most_sweeps(self) -> float:
        """The number of sweeps that the round may have; inf: no limit."""
        return int(self._state.counts[0]["most_sweeps"]) or inf

    def _take_newton_steps(self) -> Order:
        """Answer requests of Newton steps until the steps have ended; return the order that follows."""
        order = Order.NEWTON
        while order is Order.NEWTON:
            self.newton.answer()
            order = self._next_order()
        self.newton.forget()
        self._before[:] = self._alpha
        self._w[:] = self._shared.scratch_w
        return order

    def _ask(self) -> Order:
        self._shared.publish(self._w)
        return self._next_order()

    def _next_order(self) -> Order:
        counts = self._state.counts[0]
        counts["newton_equations"] = self.newton.equations
        counts["asked"] += 1
        self._shared.wait_until(lambda: counts["answered"] >= counts["asked"])
        return Order(int(counts["order"]))

    def _tell(self) -> None:
        lanes = self._state.lanes
        before, now = self._before, self._alpha
        sums = np.zeros((6, len(lanes)))
        for start in range(0, len(before), _PART_ROWS):
            old, new = before[start : start + _PART_ROWS], now[start : start + _PART_ROWS]
            change = new - old
            free = ((new > 0.0) & (new < self._U)).sum(axis=0)
            of_alpha = old.sum(axis=0), (old * old).sum(axis=0)
            sums += *of_alpha, change.sum(axis=0), (old * change).sum(axis=0), (change * change).sum(axis=0), free
        total, squares, changed, mixed, changed_squares, free_rows = sums
        lanes["dual"] = total - self._D * squares / 2.0
        lanes["linear"] = changed - self._D * mixed
        lanes["square"] = self._D * changed_squares
        lanes["free_rows"] = free_rows
        if self._whole_steps:
            curvature, free = self.statistics.of_alpha if self.statistics else np.zeros((2, len(lanes)))
            lanes["dual"], lanes["linear"], lanes["square"] = total + changed - curvature, 0.0, 0.0
            lanes["free_rows"] = free
        lanes["gap"], lanes["rate"] = self._gap, self._rate
        self._gap, self._rate = np.full((2, len(self._gap)), np.nan)

    def _take_alpha(self) -> None:
        """Take the new alpha of exported rows, if the agent has brought it: the next round starts from this alpha."""
        if self.export.take_alpha():
            self._before[:] = self._alpha

    def _take_over(self) -> None:
        """Set alpha to before + step (alpha - before), and w to the w of this alpha, which the agent has published."""
        lanes = self._state.lanes
        step = lanes["step"]
        for start in range(0, len(self._alpha), _PART_ROWS):
            part = slice(start, start + _PART_ROWS)
            now, before = self._alpha[part], self._before[part]
            # An alpha that has not changed, at a bound or elsewhere, stays the same to the bit.
            now[:] = np.where(now == before, now, np.where(step == 1.0, now, before + step * (now - before)))
        self._before[:] = self._alpha
        self._w[:] = self._shared.scratch_w
