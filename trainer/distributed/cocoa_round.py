"""The round that ends a pass of a shard trainer: it tells how alpha has changed, and takes the step agreed on.

See storage.run.rounds. Along the sum of all machines' changes D is a parabola, and the box is convex. So the best step
between 0 and 1 follows from two numbers of each machine and the changes of w (Lee, Roth, "Distributed box-constrained
quadratic optimization for dual linear SVM", ICML 2015).
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
    """`answer` each request, then `forget` what Newton steps have kept of each row.

    alpha (n_rows, width) of the trainer: `settings.shards` times that of the problem, as C is. m stays the same, and
    all sums are as many times those of the problem.
    """

    def __init__(self, directory: Path, settings: TrainerSettings, shared: SharedState, alpha: Array) -> None:
        self._directory, self._settings, self._shared, self._alpha = directory, settings, shared, alpha
        self._store: Callable[[], InOrder | None] = lambda: None
        self._threads = ALONE
        self._rows: OwnRows | None = None

    def rows_from(self, store: Callable[[], InOrder | None], threads: Threads) -> None:
        """Set the source of rows: `store` returns the store that has all rows, if there is one."""
        self._store, self._threads = store, threads

    @property
    def equations(self) -> int:
        """Most equations that a system may have; -1: not all rows are at hand."""
        return self._settings.newton_equations if self._store() is not None else -1

    def answer(self) -> None:
        """Answer the request that has come, if there is one, by a pickled Reply, or TooLarge if a system is.

        The reply is empty if the store, or room for it, fails.
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
        """Free what is kept of each row."""
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
    """Scale the sums of the reply back to the whole problem."""
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
    """`end` each round. alpha (n_rows, width) and w (features, width) are the trainer's.

    tasks      rows of both signs have the same D
    export     writes rows that do not rest when the coordinator asks for them
    newton     answers requests of Newton steps
    statistics of the solver, once it has begun: where steps are whole, they tell the rows' part of D
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
        # A place that only fills the axis has no rows: U and D are 0.
        self._U, self._D = np.zeros((2, tasks.width))
        for place, task in enumerate(tasks.each):
            U, _ = box_of(tasks.loss, np.array([min(task.C_positive, task.C_negative)]))
            _, D = box_of(tasks.loss, np.array([task.C_positive]))
            self._U[place], self._D[place] = U[0], D[0]
        self._before = alpha.copy()
        self._gap, self._rate = np.full((2, tasks.n_figures), np.nan)

    def meet(self, gaps: list[Array]) -> None:
        """Note P - D (n_figures,) as each sweep of the round has added it up."""
        if gaps:
            self._gap = gaps[0]
        if len(gaps) > 1:
            self._rate = np.array([rate(each) for each in np.array(gaps).T.tolist()])

    def end(self) -> bool:
        """Tell the agent what has changed and take over what was agreed; whether another round follows."""
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
        """Most sweeps of the round."""
        return int(self._state.counts[0]["most_sweeps"]) or inf

    def _take_newton_steps(self) -> Order:
        """Answer requests of Newton steps until they have ended; returns the order that follows."""
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
        """Take over the alpha of exported rows, if the agent has brought it: the next round starts from it."""
        if self.export.take_alpha():
            self._before[:] = self._alpha

    def _take_over(self) -> None:
        """alpha <- before + step (alpha - before); the agent has published the w that comes of it."""
        lanes = self._state.lanes
        step = lanes["step"]
        for start in range(0, len(self._alpha), _PART_ROWS):
            part = slice(start, start + _PART_ROWS)
            now, before = self._alpha[part], self._before[part]
            # An alpha that has not changed, at a bound or elsewhere, stays the same to the bit.
            now[:] = np.where(now == before, now, np.where(step == 1.0, now, before + step * (now - before)))
        self._before[:] = self._alpha
        self._w[:] = self._shared.scratch_w
