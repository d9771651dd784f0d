"""The coordinator's view of the machines: the calls it makes, the state of each shard, the rules, the certificate."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamsvm.service.cluster.rounds.messages import Answer, Found
from streamsvm.storage.rows.csr import Array


class Machines(Protocol):
    """The machines of a job by number. The implementation starts a lost machine anew; the machine then joins again."""

    def __len__(self) -> int: ...

    def answer(self, number: int, answer: Answer) -> None:
        """Send the answer to a machine, which goes on with it."""

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Found]:
        """Wait for reports of these machines; return as soon as one has come, or empty after so many seconds."""

    def is_lost(self, number: int) -> bool:
        """Whether the machine has died, and another one is being begun in its place."""

    def keep(self, come: Collection[int]) -> None:
        """If it is time, have machines that have reported save their dual variables, also on another machine."""


@dataclass(frozen=True)
class Rules:
    """The rules by which a job ends; None: the job has no such rule.

    whole_steps  the step of a round is 1
    rounds_before and seconds_before were made by earlier attempts
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
    """A machine's shard where the last step ended: its share of w, and of D without |w|^2 / 2."""

    w: Array
    dual: Array
    counts: Mapping[str, float] = field(default_factory=dict)
    round: int = -1  # whose w it has
    seconds: float = 0.0
    waited: float = 0.0  # for others, in all
    sent_bytes: int = 0
    came: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """Exact figures of each lane, (lanes,), over all rows, at the w of the model."""

    primal_objective: Array
    dual_objective: Array
    M_plus: Array
    M_minus: Array
    w_error: Array
