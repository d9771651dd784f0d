"""What a step brings: the next rows of the pass; those that are needed and not resident yet go into fresh segments."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from reader.arrivals_kernel import account, classify
from reader.passes import Passes
from reader.residents import Residents
from reader.screening import Margins, Screening
from reader.stream import Streamed
from storage.csr import Array
from storage.errors import RowTooLong
from storage.plan import CachePlan
from storage.segment import Segment, SegmentBuilder, packed_bytes, room
from storage.state import State, pass_stamp


@dataclass
class Arrivals:
    """One step's worth of a pass.

    fresh      packed segments of the rows that were neither resident nor screened
    rows       number of rows streamed; `screened` of them rest at their bound and go nowhere
    screened_unvisited  rows screened in the pass so far that had not been visited in it either
    pass_losses  if the step ends the pass: losses of all its rows at the w published before it
    ends_block   block minimization: it is the last of a block
    blocks_begun  in this pass; read_bytes: over all passes
    """

    pass_: int
    fresh: list[bytes] = field(default_factory=list)
    rows: int = 0
    screened: int = 0
    screened_unvisited: int = 0
    skipped_bytes: int = 0
    blocks_begun: int = 0
    read_bytes: int = 0
    pass_losses: float = 0.0
    ends_pass: bool = False
    ends_block: bool = False


class ArrivalSource:
    """Cuts an endless run of passes into steps. Rows that go into a fresh segment are marked resident at once."""

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
        self._pieces: Iterator[Streamed[Margins]] = iter(())
        self._piece: Segment | None = None
        self._margins: Array = np.empty(0)
        self._position = 0
        self._blocks_begun = 0
        self._read_bytes = 0
        self._screened_unvisited = 0

    @property
    def is_between_passes(self) -> bool:
        """The next step begins a pass, for which w has to be published."""
        return self._piece is None

    def next_step(self) -> Arrivals:
        """The next step; the first of a pass begins its stream."""
        if self._piece is None:
            self._begin_pass()
        arrivals = Arrivals(self._pass)
        block = self._blocks_begun
        # Rows that stream by as resident wait for a visit: no more of them than a step of new rows would have.
        most_skipped = self._plan.fresh_per_step * room(self._plan.segment_bytes)
        while self._piece is not None and arrivals.skipped_bytes < most_skipped and not self._is_full(arrivals):
            self._take_rows(arrivals, self._piece)
            if self._position == len(self._piece):
                self._next_piece()
                if self._is_beyond(block):
                    break
        if not self._builder.is_empty:
            arrivals.fresh.append(self._builder.take())
        arrivals.blocks_begun, arrivals.read_bytes = self._blocks_begun, self._read_bytes
        arrivals.screened_unvisited = self._screened_unvisited
        arrivals.ends_pass = self._piece is None
        arrivals.ends_block = self._is_beyond(block)
        if arrivals.ends_pass:
            arrivals.pass_losses = self._screening.losses
        return arrivals

    def _begin_pass(self) -> None:
        self._pass += 1
        self._screening.begin_pass(self._passes.width)
        self._pieces = self._passes.stream(self._pass, self._screening.look)
        self._screened_unvisited = 0
        self._next_piece()

    def _next_piece(self) -> None:
        streamed = next(self._pieces, None)
        self._piece = streamed.rows if streamed else None
        self._position = 0
        if streamed:
            self._margins = self._screening.take(streamed.found)
            self._blocks_begun = streamed.blocks_begun
            self._read_bytes += streamed.read_bytes

    def _is_beyond(self, block: int) -> bool:
        """By block: all of this one has been streamed."""
        return self._by_block and (self._piece is None or self._blocks_begun > block)

    def _is_full(self, arrivals: Arrivals) -> bool:
        return len(arrivals.fresh) >= self._plan.fresh_per_step

    def _take_rows(self, arrivals: Arrivals, piece: Segment) -> None:
        """Stream on through the piece until its end or until the segment being built is full."""
        start, books = self._position, self._residents
        row_id = piece.row_id[start:]
        kind, new = np.empty(len(row_id), np.uint8), np.empty(len(row_id), np.int64)
        count = classify(
            row_id, piece.y[start:], self._margins[start:], *self._screening.limits,
            books.is_resident, books.leaving, self._state.alpha, kind, new,
        )  # fmt: skip
        new = new[:count] + start
        added = self._builder.add(piece, new)
        if count and not added and self._builder.is_empty:
            raise RowTooLong(f"a row of {np.diff(piece.indptr)[new[0]]} values is longer than a segment of the cache")
        stop = len(piece) if added == count else int(new[added])
        if added < count:
            arrivals.fresh.append(self._builder.take())
        self._account(arrivals, row_id[: stop - start], kind, piece.indptr[start:])
        self._position = stop

    def _account(self, arrivals: Arrivals, row_id: Array, kind: Array, indptr: Array) -> None:
        books = self._residents
        screened, unvisited, nnz, resident = account(
            row_id, kind, indptr, pass_stamp(self._pass), books.is_resident, books.skipped, self._state.visited
        )
        arrivals.rows += len(row_id)
        arrivals.screened += screened
        arrivals.skipped_bytes += packed_bytes(resident, nnz)
        self._screened_unvisited += unvisited
