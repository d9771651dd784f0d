"""At the end of a job, brings rows held out and dual variables from its machines: for figures, and for later jobs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from streamsvm.reader.certificate.folds import HeldOut
from streamsvm.service.cluster.rounds.messages import HeldRows
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import count_rows, written_ids

PIECE_ROWS = 1 << 20  # whose dual variables are on their way at a time


class Holders(Protocol):
    """The machines of a job by number, after the last round. Raises ServiceError machine_left."""

    def __len__(self) -> int: ...

    def held_out(self, number: int, place: int) -> HeldRows:
        """Rows of a machine that the lane at this place has left out."""

    def alpha(self, number: int, part: slice) -> Array:
        """The dual variables of some of its rows: (n,), or with an axis of lanes."""


def bring_held_out(
    machines: Holders, run: Path, n_rows: int, places: Sequence[int], attend: Callable[[], None]
) -> None:
    """Write down the rows that the lanes at these places have left out, as the reader of one machine does.

    attend  is called again and again, and may raise
    """
    held = HeldOut(run, n_rows, places)
    for place in places:
        for number in range(len(machines)):
            attend()
            rows = machines.held_out(number, place)
            held.put(place, rows.row_id, rows.target, rows.decision_values)
            if rows.weight is not None:
                held.put_weights(rows.row_id, rows.weight)


def bring_alpha(
    machines: Holders,
    rows: Sequence[Array],
    alpha: Array,
    attend: Callable[[], None],
    piece_rows: int = PIECE_ROWS,
) -> None:
    """Fill alpha (n_rows,), or with an axis of lanes; rows: of each machine, runs of their ids among all.

    attend  is called again and again, and may raise
    """
    for number, runs in enumerate(rows):
        for start in range(0, count_rows(runs), piece_rows):
            attend()
            piece = machines.alpha(number, slice(start, start + piece_rows))
            alpha[written_ids(runs, np.arange(start, start + len(piece)))] = piece
