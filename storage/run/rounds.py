"""Memory-mapped files through which a trainer on one of several machines and the machine's agent talk between rounds.

The machine has a shard of the rows. In a round its trainer works on them alone, as on a whole problem, with C times
sigma and a w to which other shards contribute (CoCoA+: Ma, Smith, Jaggi et al., "Adding vs. averaging in distributed
primal-dual optimization", ICML 2015). Then all machines agree on one step along the sum of their changes.

alpha here is sigma times the alpha of the whole problem, and D the curvature that belongs to sigma times C. For the use
that the agent makes of the figures see `service.cluster.rounds.convergence`.

The trainer may export rows that do not rest to the coordinator, which trains those of all machines as one problem and
sends their new alpha back. They pass through files beside this one: GIVEN, GIVEN_ALPHA and TAKEN_ALPHA. So do requests
of Newton steps, which all machines answer: NEWTON_REQUEST and NEWTON_REPLY.
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
        # sum_i d_i(alpha_i), for both hinge losses alpha_i - D alpha_i^2 / 2, at the beginning of the round. Where
        # steps are whole: at its end, and with an error that only a LOOK changes
        ("dual", "<f8"),
        ("linear", "<f8"),  # its slope along the change of alpha in the round; its curvature there is -square; else 0
        ("square", "<f8"),
        ("gap", "<f8"),  # sum of the rows' terms of P - D in the round's first sweep; nan: there was no sweep
        ("rate", "<f8"),  # the factor by which a sweep of the round reduced the gap; nan: there were not two
        ("free_rows", "<f8"),
        # agent
        ("step", "<f8"),  # share of the change of alpha that is kept, 0 to 1
    ]
)


class Order(IntEnum):
    """The order that a trainer gets after a round.

    GO_ON  train for another round
    LOOK   take over the alpha of exported rows, if it has come, have all rows certified at this w, then ask again
    GIVE   export some of the rows that do not rest, with their alpha, then ask again; an export without rows means that
           there are no more, or that there is no room for them
    END    stop
    NEWTON answer the request of Newton steps, if there is one, then ask again; the first such order ends a round
    """

    GO_ON = 0
    LOOK = 1
    END = 2
    GIVE = 3
    NEWTON = 4


@dataclass(frozen=True)
class RoundState:
    """The mapped files of a round.

    counts     asked: reports of the trainer so far; answered: answers of the agent so far; order: an Order; most_bytes:
               limit on an export of rows; most_sweeps: limit on the sweeps of a round, 0: none; newton_equations: most
               equations of a Newton step for which the trainer has room, -1: it has not all rows at hand
    lanes      (lanes,) OF_LANE
    own_w      sum_i alpha_i y_i x_i over the machine's rows at its last LOOK; written by the reader
    """

    counts: Array
    lanes: Array
    own_w: Array


def create_round(directory: Path, width: int, lanes: int) -> RoundState:
    """Make the files, all zero, in a run directory. Raises OSError if there is no room."""
    return RoundState(*(new_array(*each) for each in _files(directory, width, lanes)))


def open_round(directory: Path, width: int, lanes: int) -> RoundState:
    """Open the files in the directory of a run."""
    return RoundState(*(open_array(*each, "r+") for each in _files(directory, width, lanes)))


def _files(directory: Path, width: int, lanes: int) -> Iterator[tuple[Path, np.dtype, tuple[int, ...]]]:
    yield directory / "round_counts", _COUNTS, (1,)
    yield directory / "round_lanes", OF_LANE, (lanes,)
    yield directory / "round_own_w", np.dtype("<f8"), (width, lanes)
