"""Where a solver of the block minimization family has its rows from: a block at a time, whole, and nothing else."""

from dataclasses import dataclass

from storage.cache import Step
from storage.csr import Array
from storage.segment import Segment
from trainer.problem import Problem
from trainer.steps import Steps


@dataclass(frozen=True)
class Block:
    """What the cache holds: `fresh`, the rows of a block, and `kept`, rows of earlier ones that stayed in it.

    step       its last step, for n_rows and width
    pass_      pass over the data it belongs to, from 1; ends_pass: it is the last of it
    is_whole   there is no other block: the cache holds all rows there are
    """

    fresh: list[Segment]
    kept: list[Segment]
    step: Step
    is_whole: bool

    @property
    def pass_(self) -> int:
        return self.step.pass_

    @property
    def ends_pass(self) -> bool:
        return self.step.ends_pass


class Blocks:
    """Gives a solver block after block. Segments are views, valid until the next call of `next`.

    If one block holds all rows it is read once and its views stay; later passes are made without the reader.

    certifies_always   whether P(w) is computed after every pass when the reader no longer does, or after few
    """

    def __init__(self, steps: Steps, problem: Problem, certifies_always: bool) -> None:
        self._steps = steps
        self._problem = problem
        self._certifies_always = certifies_always
        self._block: Block | None = None
        self._is_finished = True

    def next(self, w: Array) -> Block:
        """Say that the last block is done with, and move on to the next; wait for it if need be.

        When the last block of a pass begins `w` is published: the coming pass is certified at it.
        """
        if self._block is not None and self._block.is_whole:
            block = Block(self._block.fresh, self._block.kept, self._steps.repeat(), is_whole=True)
        else:
            self._finish()
            step = self._steps.next(w)
            while not step.ends_block:
                step = self._steps.next(w)
            block = self._read(step)
        self._block, self._is_finished = block, False
        return block

    def await_next(self) -> None:
        """As Steps has it: the reader has then taken the w it streams the coming block at. The last one is gone."""
        if self._block is not None and not self._block.is_whole:
            self._finish()
            self._steps.await_next()

    def note(self, row_id: Array, score: Array) -> None:
        """The rows (k,) were visited in this block and left these scores (k,)."""
        self._steps.note(row_id, score)

    def publish(self, w: Array) -> None:
        """Let the reader see this w."""
        self._steps.publish(w)

    def count_unvisited(self, block: Block) -> int:
        """Rows of the whole problem not visited in the pass that `block` ends."""
        return self._steps.count_unvisited(block.step)

    def primal(self, block: Block, w: Array) -> float:
        """P at some w: that published before the pass that `block` ends, or this one. inf: not worth the trouble."""
        if not block.is_whole:
            return self._steps.primal(block.step)
        is_power_of_two = block.pass_ & (block.pass_ - 1) == 0
        if not (self._certifies_always or is_power_of_two):
            return float("inf")
        known = w[: block.step.width]
        return float(known @ known) / 2 + sum(self._problem.losses(rows, w) for rows in block.fresh)

    def _finish(self) -> None:
        if not self._is_finished:
            self._steps.finish_block()
            self._is_finished = True

    def _read(self, step: Step) -> Block:
        fresh, kept = ([self._steps.read(number) for number in ids] for ids in (step.fresh, step.resident))
        begins_pass = self._block is None or self._block.ends_pass
        return Block(fresh, kept, step, is_whole=begins_pass and step.ends_pass)
