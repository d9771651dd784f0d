"""A round of a trainer whose rows are a part of the problem's: what it has changed, and what becomes of that.

See storage.run.rounds. D along what all machines have changed is a parabola, and the box is convex: the best step, at
most the whole, needs two numbers of each machine, and the changes of w (Lee, Roth, "Distributed box-constrained
quadratic optimization for dual linear SVM", ICML 2015).
"""

from collections.abc import Sequence

import numpy as np

from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.run.rounds import Order, RoundState
from streamsvm.trainer.distributed.active_row_export import GivenRows
from streamsvm.trainer.problem.box import Box
from streamsvm.trainer.problem.problem import Problem
from streamsvm.trainer.shared_state import Link

_PART_ROWS = 1 << 16


class Round:
    """`end` each round. alpha (n_rows,) and w (width,) are the trainer's, of several lanes with an axis of them.

    problems   of each lane, D the same for both signs
    given      rows that do not rest, for who asks for them
    first_gap  set by who sweeps: what its first sweep met, of each lane
    """

    def __init__(
        self, link: Link, state: RoundState, alpha: Array, w: Array, problems: Sequence[Problem], given: GivenRows
    ) -> None:
        self._link, self._state, self.given = link, state, given
        self._alpha, self._w = alpha, w
        # A lane that only fills the axis has neither rows nor a problem.
        boxes = [problem.box for problem in problems] + [Box(0.0, 0.0, 0.0, 0.0)] * (len(state.lanes) - len(problems))
        self._D = np.array([box.D_positive for box in boxes])
        self._U = np.array([min(box.U_positive, box.U_negative) for box in boxes])
        self._before = alpha.copy()
        self.first_gap: Figure = np.nan

    def end(self) -> bool:
        """Tell what has changed and take over what comes of it; whether another round follows."""
        self._tell()
        order = self._ask()
        self._take_over()
        while order in (Order.LOOK, Order.GIVE):
            if order is Order.GIVE:
                self.given.write_some(int(self._state.counts[0]["most_bytes"]))
                self._link.slow_down(self.given.slowdowns)
            else:
                self._take_alpha()
                self._tell()
                self._link.certify(self._w)
            order = self._ask()
            self._w[:] = self._link.room
        self.given.forget()  # whoever was late is told to go on
        return order is Order.GO_ON

    def _ask(self) -> Order:
        self._link.publish(self._w)
        counts = self._state.counts[0]
        counts["asked"] += 1
        self._link.wait_until(lambda: counts["answered"] >= counts["asked"])
        return Order(int(counts["order"]))

    def _tell(self) -> None:
        lanes = self._state.lanes
        before, now = self._by_lane(self._before), self._by_lane(self._alpha)
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
        lanes["gap"] = self.first_gap
        self.first_gap = np.nan

    def _take_alpha(self) -> None:
        """Of rows that were given, if there is one: the next round begins there, at rest."""
        if self.given.take_alpha():
            self._before[:] = self._alpha

    def _take_over(self) -> None:
        """alpha <- before + step (alpha - before); of the w that comes of it the agent has taken care."""
        lanes = self._state.lanes
        step = lanes["step"] if self._alpha.ndim > 1 else float(lanes["step"][0])
        for start in range(0, len(self._alpha), _PART_ROWS):
            part = slice(start, start + _PART_ROWS)
            now, before = self._alpha[part], self._before[part]
            # What is at its bound in both stays there to the bit.
            now[:] = np.where(now == before, now, np.where(step == 1.0, now, before + step * (now - before)))
        self._before[:] = self._alpha
        self._w[:] = self._link.room

    @staticmethod
    def _by_lane(values: Array) -> Array:
        return values if values.ndim > 1 else values[:, np.newaxis]
