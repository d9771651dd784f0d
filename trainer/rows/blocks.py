"""Gives solvers of the block minimization family their rows: one whole block at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.cache import Step
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.rows.spill_file import make_buffer
from streamsvm.trainer.problem.objective import dots_of, half_squares, make_objective
from streamsvm.trainer.rows.cache import Cursor
from streamsvm.trainer.rows.disk import StoredRows
from streamsvm.trainer.settings import TrainerSettings
from streamsvm.trainer.updates.convergence import is_late

_VISITS_A_SCAN = 4  # for each row
_ANY_SPEED = DiskHealth("", clock=lambda: 0.0)  # the rows are nowhere else


def is_scan_due(before: int, now: int, n_rows: int) -> bool:
    """Whether a scan of all rows is due, once in _VISITS_A_SCAN visits a row: a pass went from `before` to `now`."""
    every = _VISITS_A_SCAN * n_rows
    return now // every > before // every


class _StoredPieces(Sequence[Segment]):
    """Some pieces of a dataset's blocks, each of which is read and decoded when its turn comes, by any thread."""

    def __init__(self, stored: StoredRows, numbers: range) -> None:
        self._stored, self._numbers = stored, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return _StoredPieces(self._stored, self._numbers[which])
        return self._stored.segment(self._numbers[which], 1, make_buffer)


@dataclass(frozen=True)
class Block:
    """The rows in the cache: `fresh` segments with the rows of a block, and `kept` ones with rows of earlier blocks.

    step       the last step of the block, which has n_rows, width, the number of the pass, and whether it ends with it
    is_whole   this block is the only one: the cache holds all rows, or they are read from disk one segment at a time
    """

    fresh: Sequence[Segment]
    kept: list[Segment]
    step: Step
    is_whole: bool


class Blocks:
    """Gives a solver one block after another. Segments of a block are valid until `next` is called.

    If one block holds all rows, the reader brings it once: its segments stay valid, and later passes need no reader.
    With `rereads` they need none in any case: after the first pass the rows come from the blocks of the dataset.

    kept, keep                                                 see trainer.checkpoints.Checkpoints
    note, going, end_if_due, publish_machine, count_unvisited  see trainer.shared_state.SharedState
    """

    def __init__(self, cursor: Cursor, settings: TrainerSettings, rereads: bool = False) -> None:
        self._cursor, self._settings, self._rereads = cursor, settings, rereads
        self._objective, self._visited = make_objective(settings.tasks), settings.visited
        # Without the reader, P(w) costs an extra scan: made after every pass if the job stops by it, else after few.
        self._certifies_always = settings.relative_gap is not None
        self._block: Block | None = None
        self.keep, shared = cursor.checkpoints.keep, cursor.shared
        self.note, self.going, self.end_if_due = shared.note, shared.going, shared.end_if_due
        self.publish_machine, self.count_unvisited = shared.publish_machine, shared.count_unvisited

    @property
    def kept(self) -> Mapping[str, Array]:
        return self._cursor.checkpoints.kept

    def next(self, w: Array) -> Block:
        """Finish the last block, wait for the next one and return it. Raises Ended if the job has to end."""
        if self._block is None and self._rereads and self.kept:
            self._cursor.next()
            block = self._stored_block(self._cursor.skip_pass())
        elif self._block is not None and self._block.step.ends_pass and self._rereads and not self._block.is_whole:
            block = self._stored_block(self._cursor.repeat(w))
        elif self._block is not None and self._block.is_whole:
            block = Block(self._block.fresh, self._block.kept, self._cursor.repeat(w), is_whole=True)
        else:
            step = self._cursor.next_section(w)
            fresh, kept = ([self._cursor.read(number) for number in ids] for ids in (step.fresh, step.resident))
            self._cursor.is_whole = step.section == 0 and step.ends_pass
            block = Block(fresh, kept, step, self._cursor.is_whole)
        self._block = block
        return block

    def is_over(self, max_seconds: float | None) -> bool:
        """Whether a solver has to leave a block before its end, because the job's time is over or the job must end now.

        A stop that a user asks for waits for the end of the pass if that is near. A job that is resumed from the end of
        a pass has the same result as a job that was never stopped.
        """
        return self._cursor.shared.has_to_end or is_late(self._cursor.shared.elapsed_seconds, max_seconds)

    def primal(self, block: Block, w: Array, is_due: bool = True) -> Array:
        """Return P (1,) at the w published before the pass that `block` ends. For a whole block: P at `w`, or inf.

        is_due  whether a scan for P of a whole block costs little now, see `is_scan_due`; without a scan, P is inf
        """
        if not block.is_whole:
            return self._cursor.shared.primal(block.step)
        is_power_of_two = block.step.pass_ & (block.step.pass_ - 1) == 0
        if not (is_power_of_two or (self._certifies_always and is_due)):
            return np.full(1, np.inf)
        return half_squares(w[: block.step.width], 1) + sum(self._losses(rows, w) for rows in block.fresh)

    def _losses(self, rows: Segment, w: Array) -> float:
        total = 0.0
        for part in self._visited.all_batches(rows):
            terms = self._objective.tasks.terms(part)
            total += float(self._objective.losses(terms, self._objective.m(terms, dots_of(part, w)))[0])
        return total

    def _stored_block(self, step: Step) -> Block:
        stored = StoredRows.of(self._settings, _ANY_SPEED)
        self._cursor.is_whole = True
        return Block(_StoredPieces(stored, range(len(stored))), [], step, is_whole=True)
