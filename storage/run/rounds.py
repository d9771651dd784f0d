"""Memory-mapped files by which the trainer and the agent of one of several machines exchange data between rounds.

The machine has a shard of the rows. In a round its trainer works on this shard alone, as on a whole problem, with C
times sigma and a w to which other shards contribute (CoCoA+: Ma, Smith, Jaggi et al., "Adding vs. averaging in
distributed primal-dual optimization", ICML 2015). Then all machines agree on one step along the sum of their changes.

In these files alpha is sigma times the alpha of the whole problem, and D the curvature that belongs to sigma times C.
For the agent's use of the figures see `service.cluster.rounds.convergence`.

The trainer may export rows that do not rest at a bound to the coordinator, which trains the exported rows of all
machines as one problem and sends their new alpha back, in the files GIVEN, GIVEN_ALPHA and TAKEN_ALPHA. Requests of
Newton steps, which all machines answer, pass through the files NEWTON_REQUEST and NEWTON_REPLY.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from streamsvm.storage.files.arrays import new_array, open_array
from streamsvm.storage.rows.csr import Array

GIVEN, GIVEN_ALPHA, TAKEN_ALPHA = "given", "given_alpha.npy", "taken_alpha.npy"
NEWTON_REQUEST, NEWTON_REPLY = "newton_request", "newton_reply"
_COUNTS = np.dtype(
    [(name, "<i8") for name in ("asked", "answered", "order", "most_bytes", "most_sweeps", "newton_equations")]
)
OF_LANE = np.dtype(
    [
        # trainer
        # sum_i d_i(alpha_i), for both hinge losses alpha_i - D alpha_i^2 / 2, at the beginning of the round. If steps
        # are whole: at the round's end, and with an error that only a LOOK changes
        ("dual", "<f8"),
        ("linear", "<f8"),  # slope of `dual` along the round's change of alpha; its curvature is -square; else 0
        ("square", "<f8"),
        ("gap", "<f8"),  # sum of the rows' terms of P - D in the round's first sweep; nan: the round had no sweep
        ("rate", "<f8"),  # the factor by which a sweep of the round reduced the gap; nan: fewer than two sweeps
        ("free_rows", "<f8"),
        # agent
        ("step", "<f8"),  # share of the change of alpha that is kept, 0 to 1
    ]
)


class Order(IntEnum):
    """The order that a trainer gets from the agent after a round.

    GO_ON  train for another round
    LOOK   use the new alpha of exported rows, if it has arrived; have all rows certified at this w; ask for an order
    GIVE   export some of the rows that do not rest, with their alpha; ask for an order. An export without rows means
           that no such row is left, or that there is no room for such rows
    END    stop
    NEWTON answer the request of Newton steps, if there is one; ask for an order. The first such order ends a round
    """

    GO_ON = 0
    LOOK = 1
    END = 2
    GIVE = 3
    NEWTON = 4


@dataclass(frozen=True)
class RoundState:
    """The mapped files of a run on one of several machines.

    counts     asked: number of reports of the trainer; answered: number of answers of the agent; order: an Order;
               most_bytes: limit of an export of rows; most_sweeps: limit of the sweeps of a round, 0: no limit;
               newton_equations: most equations of a Newton step for which the trainer has room, -1: it lacks some rows
    lanes      (lanes,) OF_LANE
    own_w      sum_i alpha_i y_i x_i over the machine's rows at its last LOOK, (width, lanes); written by the reader
    """

    counts: Array
    lanes: Array
    own_w: Array


def create_round(directory: Path, width: int, lanes: int) -> RoundState:
    """Make the files, filled with zeros, in a run directory. Raises OSError if the disk has no room."""
    return RoundState(*(new_array(*each) for each in _files(directory, width, lanes)))


def open_round(directory: Path, width: int, lanes: int) -> RoundState:
    """Open the files that `create_round` has made in a run directory."""
    return RoundState(*(open_array(*each, "r+") for each in _files(directory, width, lanes)))


def _files(directory: Path, width: int, lanes: int) -> Iterator[tuple[Path, np.dtype, tuple[int, ...]]]:
    yield directory / "round_counts", _COUNTS, (1,)
    yield directory / "round_lanes", OF_LANE, (lanes,)
    yield directory / "round_own_w", np.dtype("<f8"), (width, lanes)
