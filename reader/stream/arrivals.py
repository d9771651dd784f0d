"""Cuts passes into steps, and packs the rows of a step that are neither resident nor screened into fresh segments."""

from dataclasses import dataclass, field

import numpy as np

from streamsvm.reader.stream.passes import Passes
from streamsvm.reader.stream.piece_sources import Stream, Streamed
from streamsvm.reader.stream.residents import Residents
from streamsvm.reader.stream.resume import WeightCheck
from streamsvm.reader.stream.screening import Margins, Screening
from streamsvm.reader.stream.stream_kernel import account, classify
from streamsvm.storage.errors import RowTooLong
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment, SegmentBuilder, packed_bytes, room
from streamsvm.storage.run.checkpoint import Checkpoint
from streamsvm.storage.run.state import State, pass_stamp


@dataclass
class Arrivals:
    """The rows that the reader has read for one step.

    pieces              number of pieces of the pass read by the end of this step; section: when its section began
    fresh               packed segments of the rows that were neither resident nor screened
    rows                number of rows read in the step
    screened            number of these rows that are held at a bound of alpha, and so do not enter the cache
    screened_unvisited  number of rows screened in the pass so far that the trainer has not visited in the pass
    skipped_bytes       packed bytes of the step's rows that were resident already
    blocks_begun        number of blocks begun in the pass; read_bytes: bytes read in all passes
    pass_losses         each task's sum of C_i loss_i over the pass's rows so far, at the w published before the pass
    """

    pass_: int
    section: int
    pieces: int = 0
    fresh: list[bytes] = field(default_factory=list)
    rows: int = 0
    screened: int = 0
    screened_unvisited: int = 0
    skipped_bytes: int = 0
    blocks_begun: int = 0
    read_bytes: int = 0
    pass_losses: Array = field(default_factory=lambda: np.zeros(1))
    ends_section: bool = False
    ends_pass: bool = False


# Pieces in a section, except in block minimization, where a section is a block: half a gigabyte decoded, read in two or
# three seconds. A crash costs at most one section; the trainer's wait at the end of a section costs one step.
SECTION_PIECES = 512


class ArrivalSource:
    """Cuts an endless sequence of passes into steps. It marks rows as resident as soon as it packs them.

    is_between_sections  the next step begins a section: call `next_step` when the trainer has finished the last section
    """

    def __init__(
        self,
        passes: Passes,
        plan: CachePlan,
        screening: Screening,
        residents: Residents,
        state: State,
        by_block: bool,
    ) -> None:
        self._passes = passes
        self._plan = plan
        self._screening = screening
        self._residents = residents
        self._state = state
        self._by_block = by_block
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._pass = 0
        self._taken = 0  # pieces of the pass read so far
        self._section = 0  # value of _taken when the section began
        self.is_between_sections = True
        self._pieces: Stream[Margins] | None = None
        self._piece: Streamed[Margins] | None = None
        self._position = 0
        self._blocks_begun = 0
        self._read_bytes = 0
        self._screened_unvisited = 0
        self._check: WeightCheck | None = None

    def resume(self, checkpoint: Checkpoint, check: WeightCheck | None) -> None:
        """Continue at the checkpoint's position in its pass; `check`, if any, sees all rows of the first pass."""
        about = checkpoint.about
        self._pass, self._taken = about["pass"] - 1, 0
        self._read_bytes = int(self._state.control["read_bytes"])
        self._check = check
        self._state.control["w_unverified"] = check is not None
        if about["pieces"]:
            self._begin_pass(about["pieces"])
            self._screening.losses = np.array(about["pass_losses"])
            self._screened_unvisited = about["screened_unvisited"]

    @property
    def place(self) -> tuple[int, int]:
        """The position at which the next step begins: (pass, number of its pieces read before)."""
        return (self._pass + 1, 0) if self._piece is None else (self._pass, self._taken)

    def close(self) -> None:
        """Stop reading the current pass."""
        if self._pieces:
            self._pieces.close()

    def next_step(self) -> Arrivals:
        """Read the rows of the next step, from the next pass if the last pass has ended."""
        if self._piece is None:
            self._begin_pass()
        if self.is_between_sections:
            self._section = self._taken
            self.is_between_sections = False
        arrivals = Arrivals(self._pass, self._section)
        # Resident rows that are read again wait for a visit: a step has at most as many bytes of them as of fresh rows.
        most_fresh = self._residents.most_fresh
        most_skipped = most_fresh * room(self._plan.segment_bytes)
        while (
            self._piece is not None
            and not self.is_between_sections
            and arrivals.skipped_bytes < most_skipped
            and len(arrivals.fresh) < most_fresh
            and not self._state.control["ending"]
        ):
            self._take_rows(arrivals, self._piece.rows, self._piece.result)
            if self._position == len(self._piece.rows):
                self._finish_piece(self._piece)
        if not self._builder.is_empty:
            arrivals.fresh.append(self._builder.take())
        arrivals.pieces, arrivals.blocks_begun, arrivals.read_bytes = self._taken, self._blocks_begun, self._read_bytes
        arrivals.screened_unvisited = self._screened_unvisited
        arrivals.ends_pass, arrivals.ends_section = self._piece is None, self.is_between_sections
        arrivals.pass_losses = self._screening.losses
        return arrivals

    def _begin_pass(self, skipped: int = 0) -> None:
        self._pass += 1
        self._screening.begin_pass(self._passes.width)
        self._pieces = self._passes.stream(self._pass, self._screening.look, skipped=skipped)
        self._screened_unvisited, self._taken = 0, skipped
        self._next_piece()

    def _next_piece(self) -> None:
        self._piece, self._position = next(self._pieces or iter(()), None), 0

    def _finish_piece(self, piece: Streamed[Margins]) -> None:
        self._taken += 1
        self._screening.take(piece.result)
        if self._check:
            self._check.add(piece.rows)
        self._blocks_begun = piece.blocks_begun
        self._read_bytes += piece.read_bytes
        self._next_piece()
        if self._check and self._piece is None:
            self._check.finish()
            self._check = None
            self._state.control["w_unverified"] = 0
        if self._piece is None:
            self._screening.end_pass()
        if self._piece is not None and self._by_block:
            self.is_between_sections = self._piece.blocks_begun > self._blocks_begun
        else:
            self.is_between_sections = self._piece is None or self._taken % SECTION_PIECES == 0

    def _take_rows(self, arrivals: Arrivals, piece: Segment, margins: Margins) -> None:
        """Classify and pack the piece's rows from self._position on, until the piece ends or a segment is full."""
        start, books = self._position, self._residents
        row_id = piece.row_id[start:]
        kind, new = np.empty(len(row_id), np.uint8), np.empty(len(row_id), np.int64)
        objective = self._screening.objective
        count = classify(
            piece.columns, start, margins.m, self._screening.slack, objective.tasks.n_folds, objective.resting,
            objective.tasks.tube, books.is_resident, books.leaving, self._state.alpha, kind, new,
        )  # fmt: skip
        new = new[:count]
        added = self._builder.add(piece, new)
        if count and not added and self._builder.is_empty:
            raise RowTooLong(f"a row of {np.diff(piece.indptr)[new[0]]} values is longer than a segment of the cache")
        stop = len(piece) if added == count else int(new[added])
        if added < count:
            arrivals.fresh.append(self._builder.take())
        self._account(arrivals, row_id[: stop - start], kind, piece.indptr[start:], piece.per_row)
        self._position = stop

    def _account(self, arrivals: Arrivals, row_id: Array, kind: Array, indptr: Array, per_row: int) -> None:
        books = self._residents
        screened, unvisited, nnz, resident = account(
            row_id, kind, indptr, pass_stamp(self._pass), books.is_resident, self._state.skipped, self._state.visited
        )
        arrivals.rows += len(row_id)
        arrivals.screened += screened
        arrivals.skipped_bytes += packed_bytes(resident, nnz, per_row)
        self._screened_unvisited += unvisited
