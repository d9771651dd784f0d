"""The source of rows for solvers that take them one whole block at a time, as block minimization does."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.models.support_vectors import Machine
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.objective import dots_of, half_squares, make_objective
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.convergence import is_late


@dataclass(frozen=True)
class Block:
    """The rows in the cache: `fresh` rows of this block, and `kept` rows of earlier blocks that stayed in the cache.

    step       the block's last step, for n_rows and width
    pass_      number of the pass that the block belongs to, from 1; ends_pass: it is the last block of the pass
    is_whole   this is the only block: the cache holds all rows of the problem
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
    """

    def __init__(self, cursor: Cursor, settings: TrainerSettings) -> None:
        self._cursor = cursor
        self._objective, self._visited = make_objective(settings.tasks), settings.visited
        # Without the reader P(w) costs a scan: after every pass if a relative gap is a target, else after few.
        self._certifies_always = settings.relative_gap is not None
        self._block: Block | None = None
        self.keep = cursor.checkpoints.keep

    @property
    def kept(self) -> Mapping[str, Array]:
        """The solver's arrays in the checkpoint that the run goes on from, see Checkpoints."""
        return self._cursor.checkpoints.kept

    def next(self, w: Array) -> Block:
        """End the last block, and move on to the next; waits for the reader if need be. Raises Ended."""
        if self._block is not None and self._block.is_whole:
            block = Block(self._block.fresh, self._block.kept, self._cursor.repeat(w), is_whole=True)
        else:
            if self._block is not None:
                self._cursor.end_section(w)
            step = self._cursor.next()
            while not step.ends_section:
                step = self._cursor.next()
            block = self._read(step)
        self._block = block
        return block

    def note(self, row_id: Array, score: Array) -> None:
        """The rows (k,) were visited in this block and left these scores (k,)."""
        self._cursor.shared.note(row_id, score)

    def is_over(self, max_seconds: float | None) -> bool:
        """Whether the time of the job is over: a solver then makes no more rounds over this block.

        A person's stop does not end rounds: a job that goes on from the end of the pass reaches the same model as an
        undisturbed one.
        """
        return is_late(self._cursor.shared.elapsed_seconds, max_seconds)

    @property
    def has_to_end(self) -> bool:
        """Whether the job has to end though its pass is not over."""
        return self._cursor.shared.has_to_end

    def going(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The segments until the job has to end: after them call `end_if_due`."""
        return self._cursor.shared.going(segments)

    def end_if_due(self) -> None:
        """Raises Ended if the job has to end."""
        self._cursor.shared.end_if_due()

    def publish_machine(self, machine: Machine) -> None:
        """Publish a kernel machine, see SharedState."""
        self._cursor.shared.publish_machine(machine)

    def count_unvisited(self, block: Block) -> int:
        """Rows of the whole problem not visited in the pass that `block` ends."""
        return self._cursor.shared.count_unvisited(block.step)

    def primal(self, block: Block, w: Array) -> Array:
        """P (1,) at the w published before the pass that `block` ends; of a whole block at `w`, or inf to save time."""
        if not block.is_whole:
            return self._cursor.shared.primal(block.step)
        is_power_of_two = block.pass_ & (block.pass_ - 1) == 0
        if not (self._certifies_always or is_power_of_two):
            return np.full(1, np.inf)
        return half_squares(w[: block.step.width], 1) + sum(self._losses(rows, w) for rows in block.fresh)

    def _losses(self, rows: Segment, w: Array) -> float:
        total = 0.0
        for part in self._visited.all_batches(rows):
            terms = self._objective.tasks.terms(part)
            total += float(self._objective.losses(terms, self._objective.m(terms, dots_of(part, w)))[0])
        return total

    def _read(self, step: Step) -> Block:
        fresh, kept = ([self._cursor.read(number) for number in ids] for ids in (step.fresh, step.resident))
        return Block(fresh, kept, step, is_whole=step.section == 0 and step.ends_pass)
