"""Messages between a coordinator and the agents of its machines. alpha and w are those of the whole problem."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsvm.service.cluster.rounds.change_kernel import add_all, add_named, count_changed, name_changed
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import Order

# Of a run's control page: all machines' together are those of the job.
COUNTED = (
    "updates", "rows_streamed", "rows_screened", "read_bytes", "resident_rows", "resident_bytes", "evicted_rows",
    "reader_wait_seconds", "trainer_wait_seconds",
)  # fmt: skip
_WORTH_NAMING = 0.5  # of all numbers: an index takes as much room as a number


@dataclass(frozen=True)
class Change:
    """A difference of w as float32: whole, or where it is not 0.

    indices  (k,) uint32 places in w laid flat, int64 in one that is longer, ascending; None: all of them
    values   (k,) float32; neither can be written to
    """

    indices: Array | None
    values: Array

    @classmethod
    def of(cls, difference: Array) -> "Change":
        """The change that this array, as long as w, describes."""
        flat = difference.reshape(-1)
        count = count_changed(flat)
        if count > _WORTH_NAMING * len(flat):
            return cls(None, _kept(flat.astype(np.float32)))
        places = np.uint32 if len(flat) <= np.iinfo(np.uint32).max else np.int64
        indices, values = np.empty(count, places), np.empty(count, np.float32)
        name_changed(flat, indices, values)
        return cls(_kept(indices), _kept(values))

    @property
    def n_bytes(self) -> int:
        """To be sent."""
        return self.values.nbytes + (0 if self.indices is None else self.indices.nbytes)

    def add_to(self, total: Array, step: Array | float = 1.0) -> None:
        """Add so much of it, a number or one for each on the axis of lanes, to an array as long as w."""
        flat, by = total.reshape(-1), np.full(total.shape[1], step, np.float64)
        if self.indices is None:
            add_all(flat, self.values, by)
        else:
            add_named(flat, self.indices, self.values, by)


def _kept(values: Array) -> Array:
    """Not to be written to, as what arrives from another process is not: the kernels are compiled for that alone."""
    values.flags.writeable = False
    return values


NO_CHANGE = Change(_kept(np.empty(0, np.uint32)), _kept(np.empty(0, np.float32)))


@dataclass(frozen=True)
class Given:
    """Some of a machine's active rows; without segments: there are no more.

    segments  of storage.rows.segment, but for what follows the rows in them; their ids are the machine's own
    alpha     (k, lanes) of all of these
    """

    segments: tuple[bytes, ...]
    alpha: Array

    @property
    def n_bytes(self) -> int:
        """To be sent."""
        return sum(map(len, self.segments)) + self.alpha.nbytes


@dataclass(frozen=True)
class Found:
    """A machine's report on a round. Figures are (lanes,) float64, of its rows alone.

    change         of its own part of w since the last step was agreed
    own_w          its part of w, as long as w: when it joins, and after a look
    dual           sum_i alpha_i - D alpha_i^2 / 2, where the last step ended; linear, square: see storage.run.rounds
    gap            its rows' terms of P - D as the round's first sweep met them; nan: there was none
    M_plus, M_minus  largest and smallest projected gradient met
    losses         sum_i C loss_i at the w of now, after a look
    given          rows, if they were asked for
    counts         COUNTED, and free_rows
    seconds        that the round took
    """

    change: Change
    own_w: Array | None
    dual: Array
    linear: Array
    square: Array
    gap: Array
    M_plus: Array
    M_minus: Array
    losses: Array | None
    given: Given | None
    counts: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Answer:
    """The coordinator's answer to a report.

    change    the sum of those of all machines, of which `step` (lanes,) is taken; None: `w` is the whole of it
    converged (lanes,) int64, as `storage.run.state.OF_LANE` has it
    alpha     of all rows that were given, in their order; None: it is what it was
    most_bytes  of rows to be given, in all
    """

    order: Order
    change: Change | None
    w: Array | None
    step: Array
    converged: Array
    alpha: Array | None = None
    most_bytes: int = 0


@dataclass(frozen=True)
class HeldRows:
    """Rows of a machine that a lane has left out, as its last look found them.

    row_id  (n,) among all rows; target (n,): y if they were not left out; decision_values (n,)
    weight  (n,); None: rows have none
    """

    row_id: Array
    target: Array
    decision_values: Array
    weight: Array | None


@dataclass(frozen=True)
class Begin:
    """The order to begin a run.

    job      names the run, for what is kept of it
    spec     the job, as `JobSpec.model_dump` has it
    number, at_once   of the first lane, and most lanes side by side
    machines how many there are: sigma
    maps     feature maps, fitted to all rows
    rows     runs of the ids that the shard's rows have among all, see storage.rows.row_runs
    alpha    (rows,), or with an axis of lanes, to begin with; None: what the machine has kept, or zeros
    """

    job: str
    shard: str
    spec: dict[str, Any]
    number: int
    at_once: int
    machines: int
    maps: FeatureMaps
    rows: Array
    alpha: Array | None = None

    @property
    def is_alone(self) -> bool:
        """Whether the machine trains to the end by itself, in one round, and the results are averaged."""
        return bool(self.spec["combine"] == "average")
