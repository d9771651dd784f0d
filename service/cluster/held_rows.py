"""Brings the rows that lanes have left out from the machines to where the job's figures are made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reader.certificate.folds import HeldOut
from service.cluster.messages import HeldRows


class Holders(Protocol):
    """The machines of a job by number."""

    def __len__(self) -> int: ...

    def held_out(self, number: int, place: int) -> HeldRows:
        """Rows of a machine that the lane at this place has left out, after the last round."""


def bring_held_out(machines: Holders, run: Path, n_rows: int, places: Sequence[int]) -> None:
    """Write down those of the lanes at these places, as the reader of one machine does."""
    held = HeldOut(run, n_rows, places)
    for place in places:
        for number in range(len(machines)):
            rows = machines.held_out(number, place)
            held.put(place, rows.row_id, rows.target, rows.decision_values)
            if rows.weight is not None:
                held.put_weights(rows.row_id, rows.weight)
