"""The exchange of a job on several machines: the coordinator gives an order, a machine reports what has come of it.

Each machine holds a shard of the rows. It trains on them alone for a while, as on a whole problem to which other
shards contribute a part of w, or it answers sums over them. alpha, w and all figures in a message are those of the
whole problem; what a machine's trainer has instead see trainer.distributed.shard.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.figures import COUNTS, figures_in

# Counts of a control page whose sums over all machines are the counts of the job.
COUNTED = (*COUNTS, *(figure.name for figure in figures_in("waits")))
_WORTH_NAMING = 0.5  # largest share of numbers that are sent with indices: an index is as large as a number
_PIECE_ROWS = 1 << 16


@dataclass(frozen=True)
class Change:
    """A change of w in float32: all its numbers, or only the numbers that are not 0.

    indices  (k,) indices in the flattened w, ascending, uint32 (int64 if w is longer); None: all numbers of w
    values   (k,) float32
    """

    indices: Array | None
    values: Array

    @classmethod
    def of(cls, difference: Array) -> "Change":
        """Return the change that the array `difference`, in the shape of w, describes."""
        flat = difference.reshape(-1)
        if np.count_nonzero(flat) > _WORTH_NAMING * len(flat):
            return cls(None, flat.astype(np.float32))
        indices = np.flatnonzero(flat)
        places = np.uint32 if len(flat) <= np.iinfo(np.uint32).max else np.int64
        return cls(indices.astype(places), flat[indices].astype(np.float32))

    def add_to(self, total: Array, step: Array | float = 1.0) -> None:
        """Add `step` (a number, or one for each column) times the change to an array of the shape of w."""
        by = np.full(total.shape[1], step, np.float64)
        if self.indices is not None:
            total.reshape(-1)[self.indices] += by[self.indices % len(by)] * self.values
            return
        values = self.values.reshape(total.shape)
        for start in range(0, len(total), _PIECE_ROWS):
            part = slice(start, start + _PIECE_ROWS)
            total[part] += by * values[part]


class Activity(Enum):
    """What a machine is told to do.

    TRAIN   train for a round
    LOOK    certify all rows at this w
    GIVE    export some of the rows that do not rest, with their alpha; none: no such row is left, or has room
    NEWTON  answer the request of Newton steps; without one, tell what the machine's part of w is
    END     stop
    """

    TRAIN = "train"
    LOOK = "look"
    GIVE = "give"
    NEWTON = "newton"
    END = "end"


@dataclass(frozen=True)
class Order:
    """An order to machines. What was trained before it is kept in the share `step` (lanes,) of its change.

    converged   (lanes,) int64, see `converged_by` in `storage.run.state.OF_LANE`
    most_bytes  limit on the bytes of rows that a machine exports, in all
    most_sweeps limit on the sweeps of a round; 0: none
    change      sum of the changes of all machines, of which `step` is taken; None: w stays, or `w` is the new one
    newton      pickled Request of Newton steps (trainer.newton.requests)
    alpha       new alpha of the rows that this machine has exported, in their order; None: it has not changed
    """

    work: Activity
    step: Array
    converged: Array
    most_bytes: int
    most_sweeps: int
    change: Change | None = None
    w: Array | None = None
    newton: bytes | None = None
    alpha: Array | None = None


@dataclass(frozen=True)
class Report:
    """A machine's report on its work. Figures are (lanes,) float64, over the machine's rows alone.

    work      that it was told to do; None: it has begun, or begun anew, and tells where
    change    of the machine's part of w since the last step was agreed on; None: it has not trained
    own_w     the machine's part of w, sum_i alpha_i y_i x_i: in its first report, and after a LOOK or the first NEWTON
    dual      sum_i d_i(alpha_i), for both hinge losses alpha_i - D alpha_i^2 / 2, after the last step
    linear    slope of `dual` along the change of alpha; its curvature is -square; both are 0 where steps are whole
    gap       the rows' terms of P - D in the round's first sweep; nan: there was no sweep
    rate      the factor by which a sweep of the round reduced the rows' terms of P - D; nan: it is not known
    M_plus, M_minus  largest and smallest projected gradient of the round
    losses    sum_i C loss_i at the present w, after a LOOK
    segments  of rows, after a GIVE (storage.rows.segment), without the unused bytes at their ends; row ids count the
              machine's rows. None of them: the machine has no more active rows to export
    alpha     (k, lanes), the dual variables of these rows
    newton    pickled Reply to a request of Newton steps, or a TooLarge; empty: the machine lacks some of its rows
    counts    COUNTED, sweeps_made, slowdowns, free_rows, and newton_equations: the most equations of a system that the
              machine has room for, -1: it does not hold all of its rows
    seconds   seconds that the work took; n_bytes: bytes of the report
    """

    work: Activity | None
    dual: Array
    linear: Array
    square: Array
    gap: Array
    rate: Array
    M_plus: Array
    M_minus: Array
    counts: dict[str, float]
    seconds: float
    change: Change | None = None
    own_w: Array | None = None
    losses: Array | None = None
    segments: tuple[bytes, ...] = ()
    alpha: Array | None = None
    newton: bytes | None = None
    n_bytes: int = 0
