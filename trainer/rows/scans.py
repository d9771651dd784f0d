"""Passes that compute margins of all rows at some w, and cuts (cutting planes) of the losses there; w stays as it is.

Each of n threads gets every n-th segment, in the order of the pass, and has separate sums. The result depends on the
number of threads, not on their speed.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from streamsvm.storage.rows.csr import Array, add_rows
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.losses.terms import RowTerms
from streamsvm.trainer.problem.objective import dots_of
from streamsvm.trainer.rows.blocks import Block, Blocks
from streamsvm.trainer.settings import TrainerSettings


class Cut:
    """One thread's part of a cut b - <A, w>, a lower bound of the losses sum_i C_i max(0, 1 - y_i <w, x_i>).

    A, b            sum C_i y_i x_i and sum C_i over the rows inside the margin
    losses          the losses of all rows at a point, if a pass computes them
    losses_at_zero  the losses of all rows at w = 0
    """

    def __init__(self, width: int) -> None:
        self.A = np.zeros(width)
        self.b = self.losses = self.losses_at_zero = 0.0

    def add(self, rows: Segment, terms: RowTerms, inside: Array) -> None:
        """Add a segment's rows with these terms; `inside` (n,) bool tells which are inside the margin."""
        add_rows(np.where(inside, terms.C * terms.sign, 0.0), *rows.csr, self.A)
        self.b += float(terms.C[inside].sum())
        self.losses_at_zero += float(terms.C.sum())


class BlockScans:
    """Passes over `blocks` with `threads` threads. Each method makes one pass and returns the pass's last block."""

    def __init__(self, blocks: Blocks, settings: TrainerSettings, width: int, threads: int, pool: Executor) -> None:
        self._blocks = blocks
        self._tasks, self._visited = settings.tasks, settings.visited
        self._width = width
        self._threads = threads
        self._pool = pool

    def outputs(self, w: Array, point: Array, slack: Array | None = None) -> tuple[Cut, Block]:
        """Return the cut at `point` (width,) with the losses. Fill `slack` (n_rows,): C_i (1 - y_i <point, x_i>)."""

        def look(cut: Cut, rows: Segment) -> None:
            terms = self._terms(rows)
            c = terms.C - terms.C * terms.sign * dots_of(rows, point[:, np.newaxis])[:, 0]
            cut.losses += float(np.maximum(0.0, c).sum())
            cut.add(rows, terms, c >= 0.0)
            if slack is not None:
                slack[rows.row_id] = c

        return self._sum(w, look)

    def changes(self, w: Array, direction: Array, change: Array) -> Block:
        """Fill `change` (n_rows,) with what a step along `direction` (width,) adds to C_i (1 - y_i <w, x_i>)."""

        def look(_lane: int, rows: Segment) -> None:
            terms = self._terms(rows)
            change[rows.row_id] = -terms.C * terms.sign * dots_of(rows, direction[:, np.newaxis])[:, 0]

        return self._each(w, look)

    def cut(self, w: Array, slack: Array, change: Array, share: float) -> tuple[Cut, Block]:
        """Return the cut at the point where C_i (1 - y_i <w, x_i>) is slack + share * change, each (n_rows,)."""

        def look(cut: Cut, rows: Segment) -> None:
            inside = slack[rows.row_id] + share * change[rows.row_id] >= 0.0
            cut.add(rows, self._terms(rows), inside)

        return self._sum(w, look)

    def _sum(self, w: Array, look: Callable[[Cut, Segment], None]) -> tuple[Cut, Block]:
        lanes = [Cut(self._width) for _ in range(self._threads)]
        end = self._each(w, lambda lane, rows: look(lanes[lane], rows))
        total = lanes[0]
        for lane in lanes[1:]:
            total.A += lane.A
            total.b += lane.b
            total.losses += lane.losses
            total.losses_at_zero += lane.losses_at_zero
        return total, end

    def _each(self, w: Array, look: Callable[[int, Segment], None]) -> Block:
        begun = 0
        while True:
            block = self._blocks.next(w)
            segments = block.fresh
            lanes = [segments[(lane - begun) % self._threads :: self._threads] for lane in range(self._threads)]
            for done in [self._pool.submit(self._look_at, look, lane, mine) for lane, mine in enumerate(lanes)]:
                done.result()
            self._blocks.end_if_due()
            begun += len(segments)
            if block.step.ends_pass:
                return block

    def _look_at(self, look: Callable[[int, Segment], None], lane: int, segments: Sequence[Segment]) -> None:
        for rows in self._blocks.going(segments):
            for part in self._visited.all_batches(rows):
                look(lane, part)
            self._blocks.note(rows.row_id, np.zeros(len(rows), np.float32))

    def _terms(self, rows: Segment) -> RowTerms:
        return self._tasks.terms(rows).of_task(0)
