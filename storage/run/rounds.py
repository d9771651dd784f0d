"""What a trainer on one of several machines and the machine's agent tell each other between rounds, memory-mapped.

The machine's rows are a part of the problem's. Its trainer works on them alone for a round, as if they were all there
are, with C times sigma and a w that others have a part in (CoCoA+: Ma, Smith, Jaggi et al., "Adding vs. averaging in
distributed primal-dual optimization", ICML 2015). Then all machines agree on one step along what they have changed.

alpha here is sigma times that of the whole problem, and D the curvature that belongs to sigma times C: see
`service.cluster.rounds.combine` for what the agent makes of the figures.

Rows that do not rest may be given away for a while: who has those of all machines trains them as one problem, and what
alpha they have then comes back. They pass through files beside this one, GIVEN and the two of their alpha.
"""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from streamsvm.storage.rows.csr import Array

GIVEN, GIVEN_ALPHA, TAKEN_ALPHA = "given", "given_alpha.npy", "taken_alpha.npy"
_COUNTS = np.dtype([(name, "<i8") for name in ("asked", "answered", "order", "most_bytes")])
OF_LANE = np.dtype(
    [
        # trainer
        ("dual", "<f8"),  # sum_i alpha_i - D alpha_i^2 / 2, at the beginning of the round
        ("linear", "<f8"),  # its slope along what the round has changed; half its curvature there is -square / 2
        ("square", "<f8"),
        ("gap", "<f8"),  # what the rows' terms of P - D came to in the round's first sweep; nan: there was none
        ("free_rows", "<f8"),
        # agent
        ("step", "<f8"),  # how much of what the round has changed is kept, 0 to 1
    ]
)


class Order(IntEnum):
    """What a trainer is to do after a round.

    LOOK   take over alpha if it is there, have all rows looked at, at the w of now, then ask again
    GIVE   write some of the rows that do not rest, with their alpha; then ask again. The last have been those that
           are followed by none, any of those there are if there is no room for more
    """

    GO_ON = 0
    LOOK = 1
    END = 2
    GIVE = 3


@dataclass(frozen=True)
class RoundState:
    """
    counts     asked (by the trainer: what it found is there), answered (by the agent), order (an Order),
               most_bytes (of rows, to be given)
    lanes      (lanes,) OF_LANE
    own_w      sum_i alpha_i y_i x_i of the machine's rows, as of its last look; written by the reader
    """

    counts: Array
    lanes: Array
    own_w: Array


def create_round(directory: Path, width: int, lanes: int) -> RoundState:
    """New files, all zero, in a run directory."""
    return _map(directory, width, lanes, "w+")


def open_round(directory: Path, width: int, lanes: int) -> RoundState:
    """Those of a run."""
    return _map(directory, width, lanes, "r+")


def _map(directory: Path, width: int, lanes: int, mode: str) -> RoundState:

    def array(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
        return np.asarray(np.memmap(directory / f"round_{name}", dtype, mode, shape=shape))  # type: ignore[call-overload]

    real = np.dtype("<f8")
    return RoundState(
        array("counts", _COUNTS, (1,)),
        array("lanes", OF_LANE, (lanes,)),
        array("own_w", real, (width, lanes)),
    )
