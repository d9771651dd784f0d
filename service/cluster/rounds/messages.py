"""Messages between a coordinator and the agents of its machines. alpha and w are those of the whole problem."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from streamsvm.service.cluster.rounds.change_kernel import add_all, add_named, count_changed, name_changed
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.rounds import Order
from streamsvm.storage.run.state import COUNTS

# Counts of a control page whose sums over all machines are the counts of the job.
COUNTED = (*COUNTS, "reader_wait_seconds", "trainer_wait_seconds")
_WORTH_NAMING = 0.5  # largest share of numbers that are sent with indices: an index is as large as a number


@dataclass(frozen=True)
class Change:
    """A change of w in float32: all its numbers, or only the numbers that are not 0.

    indices  (k,) indices in the flattened w, ascending, uint32 (int64 if w is longer); None: all numbers of w
    values   (k,) float32. Both arrays are read-only
    """

    indices: Array | None
    values: Array

    @classmethod
    def of(cls, difference: Array) -> "Change":
        """Return the change that the array `difference`, in the shape of w, describes."""
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
        """Bytes to send."""
        return self.values.nbytes + (0 if self.indices is None else self.indices.nbytes)

    def add_to(self, total: Array, step: Array | float = 1.0) -> None:
        """Add `step` (a number, or one for each column) times the change to an array of the shape of w."""
        flat, by = total.reshape(-1), np.full(total.shape[1], step, np.float64)
        if self.indices is None:
            add_all(flat, self.values, by)
        else:
            add_named(flat, self.indices, self.values, by)


def _kept(values: Array) -> Array:
    """Make the array read-only, as arrays from other processes are: kernels are compiled for read-only arrays alone."""
    values.flags.writeable = False
    return values


NO_CHANGE = Change(_kept(np.empty(0, np.uint32)), _kept(np.empty(0, np.float32)))


@dataclass(frozen=True)
class ExportedRows:
    """Active rows that a machine exports. No segments means that the machine has no more active rows to export.

    segments  segments (storage.rows.segment) without the unused bytes at their ends; row ids count the machine's rows
    alpha     (k, lanes), the dual variables of the k rows
    """

    segments: tuple[bytes, ...]
    alpha: Array

    @property
    def n_bytes(self) -> int:
        """Bytes to send."""
        return sum(map(len, self.segments)) + self.alpha.nbytes


@dataclass(frozen=True)
class Found:
    """A machine's report on a round. Figures are (lanes,) float64, over the machine's rows alone.

    change         change of the machine's part of w since the last step was agreed on
    own_w          the machine's part of w, in the shape of w: in its first report, and after a LOOK or the first NEWTON
    dual           sum_i alpha_i - D alpha_i^2 / 2 after the last step; linear, square: see storage.run.rounds
    gap            the rows' terms of P - D in the round's first sweep; nan: there was no sweep
    rate           the factor by which a sweep of the round reduced the rows' terms of P - D; nan: it is not known
    M_plus, M_minus  largest and smallest projected gradient of the round
    losses         sum_i C loss_i at the present w, after a LOOK
    exported       exported rows, after a GIVE
    newton         pickled Reply to a request of Newton steps (trainer.newton.requests), after a NEWTON; empty: there
                   was no request, or the machine does not hold all of its rows
    counts         COUNTED, sweeps_made, slowdowns, free_rows, and newton_equations (storage.run.rounds)
    seconds        seconds that the round took
    """

    change: Change
    own_w: Array | None
    dual: Array
    linear: Array
    square: Array
    gap: Array
    rate: Array
    M_plus: Array
    M_minus: Array
    losses: Array | None
    exported: ExportedRows | None
    newton: bytes | None
    counts: dict[str, float]
    seconds: float

    @property
    def has_begun_anew(self) -> bool:
        """Whether this is the first report of a machine, which has answered no order yet."""
        return self.own_w is not None and self.losses is None and self.newton is None

    @property
    def n_bytes(self) -> int:
        """Bytes to send."""
        exported = 0 if self.exported is None else self.exported.n_bytes
        own_w = 0 if self.own_w is None else self.own_w.nbytes
        return self.change.n_bytes + own_w + exported + len(self.newton or b"")


@dataclass(frozen=True)
class OrderToMachine:
    """The coordinator's answer to a report: the next order.

    change    sum of the changes of all machines, of which `step` (lanes,) is taken; None: `w` is the new w
    converged (lanes,) int64, see `converged_by` in `storage.run.state.OF_LANE`
    alpha     new alpha of the rows that this machine has exported, in their order; None: it has not changed
    most_bytes  limit on the bytes of rows that this machine exports, in all
    most_sweeps  limit on the sweeps of the next round; 0: none
    newton      pickled Request of Newton steps
    """

    order: Order
    change: Change | None
    w: Array | None
    step: Array
    converged: Array
    alpha: Array | None = None
    most_bytes: int = 0
    most_sweeps: int = 0
    newton: bytes | None = None


@dataclass(frozen=True)
class HeldRows:
    """Rows of a machine that a lane left out of training, evaluated at the machine's last LOOK.

    row_id  (n,) ids among all rows; target (n,): their y; decision_values (n,)
    weight  (n,) weights of the rows; None: the rows have none
    """

    row_id: Array
    target: Array
    decision_values: Array
    weight: Array | None


@dataclass(frozen=True)
class Begin:
    """The order to begin a run on a shard.

    job      name of the run, under which a machine saves its dual variables
    spec     the fields of the job, as `JobSpec.model_dump` returns them
    number, at_once   number of the first lane, and how many lanes are trained side by side at most
    machines number of machines, which is sigma
    maps     feature maps, fitted to all rows
    rows     ids of the shard's rows among all rows, in runs, see storage.rows.row_runs
    alpha    (rows,) or (rows, lanes) to begin with; None: the alpha that the machine has saved, or zeros
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


class Machines(Protocol):
    """The machines of a job, by number. The implementation starts a lost machine anew; it then joins the job again."""

    def __len__(self) -> int: ...

    def answer(self, number: int, answer: OrderToMachine) -> None:
        """Send an answer to a machine, which then does what the answer orders."""

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Found]:
        """Wait until a machine in `pending` reports, or `seconds` are over; return the reports by machine."""

    def is_lost(self, number: int) -> bool:
        """Return whether the machine has died, and another is being started in its place."""

    def keep(self, come: Collection[int]) -> None:
        """If it is time, have the machines in `come` save their dual variables, each also on another machine."""


@dataclass(frozen=True)
class Rules:
    """The rules by which a job ends; None: the job has no such rule.

    whole_steps  the step of each round is 1
    rounds_before, seconds_before: rounds and seconds of earlier attempts
    """

    tolerance: float | None
    relative_gap: float | None
    max_rounds: int
    max_seconds: float | None
    combine: str
    whole_steps: bool = False
    rounds_before: int = 0
    seconds_before: float = 0.0


@dataclass
class ShardState:
    """A machine's shard at the end of the last step: its part of w, and its part of D without |w|^2 / 2."""

    w: Array
    dual: Array
    counts: Mapping[str, float] = field(default_factory=dict)
    round: int = -1  # the round whose w it has
    seconds: float = 0.0
    waited: float = 0.0  # seconds for other machines, in all
    sent_bytes: int = 0
    came: float = 0.0


@dataclass(frozen=True)
class LaneCertificate:
    """Exact figures (lanes,) over all rows, at the w of the model. w_error is |w - sum_i alpha_i y_i x_i| / |w|."""

    primal_objective: Array
    dual_objective: Array
    M_plus: Array
    M_minus: Array
    w_error: Array
