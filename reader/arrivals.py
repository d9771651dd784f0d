"""What a step brings: the next rows of the pass, those not resident yet packed into fresh segments."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from reader.stream import Examples, Streamed, part
from storage.csr import Array
from storage.plan import CachePlan
from storage.segment import Segment, SegmentBuilder, packed_bytes, room
from storage.state import pass_stamp


@dataclass
class Arrivals:
    """One step's worth of a pass.

    streamed   all rows of the step, in parts of pieces
    fresh      packed segments of the rows that were not resident
    rows       number of rows streamed; `arrived` of them went into fresh segments
    blocks_begun  in this pass; read_bytes: over all passes
    """

    pass_: int
    streamed: list[Segment] = field(default_factory=list)
    fresh: list[bytes] = field(default_factory=list)
    rows: int = 0
    arrived: int = 0
    bytes: int = 0
    blocks_begun: int = 0
    read_bytes: int = 0
    ends_pass: bool = False


class ArrivalSource:
    """Cuts an endless run of passes into steps.

    `resident` (n_rows,) bool says what the cache holds; rows that go into a fresh segment are marked at once.
    `skipped` (n_rows,) uint8 receives the pass's stamp for rows that stream by while resident.
    """

    def __init__(self, examples: Examples, plan: CachePlan, seed: int, resident: Array, skipped: Array) -> None:
        self._examples = examples
        self._plan = plan
        self._seed = seed
        self._resident = resident
        self._skipped = skipped
        self._builder = SegmentBuilder(plan.segment_bytes)
        self._pass = 0
        self._pieces: Iterator[Streamed] = iter(())
        self._piece: Segment | None = None
        self._position = 0
        self._blocks_begun = 0
        self._read_bytes = 0

    def next_step(self) -> Arrivals:
        """The next step; the first of a pass begins its stream."""
        if self._piece is None:
            self._begin_pass()
        arrivals = Arrivals(self._pass)
        # Rows that stream by as resident wait for a visit: no more of them than a step of new rows would have.
        longest = self._plan.fresh_per_step * room(self._plan.segment_bytes)
        while self._piece is not None and arrivals.bytes < longest and not self._is_full(arrivals):
            self._take_rows(arrivals, self._piece)
            if self._position == len(self._piece):
                self._next_piece()
        if not self._builder.is_empty:
            arrivals.fresh.append(self._builder.take())
        arrivals.blocks_begun, arrivals.read_bytes = self._blocks_begun, self._read_bytes
        arrivals.ends_pass = self._piece is None
        return arrivals

    def _begin_pass(self) -> None:
        self._pass += 1
        self._pieces = self._examples.stream(self._seed, self._pass)
        self._next_piece()

    def _next_piece(self) -> None:
        streamed = next(self._pieces, None)
        self._piece = streamed.rows if streamed else None
        self._position = 0
        if streamed:
            self._blocks_begun = streamed.blocks_begun
            self._read_bytes += streamed.read_bytes

    def _is_full(self, arrivals: Arrivals) -> bool:
        return len(arrivals.fresh) >= self._plan.fresh_per_step

    def _take_rows(self, arrivals: Arrivals, piece: Segment) -> None:
        """Stream on through the piece until its end or until the segment being built is full."""
        start = self._position
        is_resident = self._resident[piece.row_id[start:]]
        new = start + np.flatnonzero(~is_resident)
        added = self._builder.add(piece, new)
        stop = len(piece) if added == len(new) else int(new[added])
        if added < len(new):
            arrivals.fresh.append(self._builder.take())
        self._resident[piece.row_id[new[:added]]] = True
        self._skipped[piece.row_id[start:stop][is_resident[: stop - start]]] = pass_stamp(self._pass)
        arrivals.streamed.append(part(piece, start, stop))
        arrivals.rows += stop - start
        arrivals.arrived += added
        arrivals.bytes += packed_bytes(stop - start, int(piece.indptr[stop] - piece.indptr[start]))
        self._position = stop
