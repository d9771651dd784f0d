"""What a coordinator knows of its machines, and what it is to come to."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamsvm.service.cluster.messages import Answer, Found
from streamsvm.storage.rows.csr import Array


class Machines(Protocol):
    """The machines of a job by number. One that is lost is begun anew by itself, and joins again."""

    def __len__(self) -> int: ...

    def answer(self, number: int, answer: Answer) -> None:
        """Have a machine go on."""

    def wait(self, pending: Collection[int], seconds: float) -> dict[int, Found]:
        """What has come of these machines, as soon as there is something, or nothing after so much time."""

    def is_lost(self, number: int) -> bool:
        """Whether there is no telling when the machine comes."""

    def keep(self, come: Collection[int]) -> None:
        """Have these, which have come, keep their dual variables, beside another machine's too, if it is time."""


@dataclass(frozen=True)
class Rules:
    """When a job ends; None: not by this. Of all its rounds and seconds, so many are those of before."""

    tolerance: float | None
    relative_gap: float | None
    max_rounds: int
    max_seconds: float | None
    combine: str
    rounds_before: int = 0
    seconds_before: float = 0.0


@dataclass
class Part:
    """What is known of a machine: its part of w, and its part of D but for w, where the last step ended."""

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
    """Of each lane, (lanes,): exact, over all rows, at the w that the model has."""

    primal_objective: Array
    dual_objective: Array
    M_plus: Array
    M_minus: Array
    w_error: Array
