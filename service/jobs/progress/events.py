"""The events of a job: changes of its state and its passes, numbered, so that a client can go on after one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.jobs.progress.progress import records_of
from streamsvm.service.jobs.progress.views import sequence_number

PART_BYTES = 1 << 16
_PARTS_KEPT = 64  # for clients that come one after the other


@dataclass(frozen=True)
class Event:
    """`kind` is state, pass, progress, end or ping; those with a number are told once, in its order."""

    kind: str
    data: str
    number: int | None = None


def to_json(value: Any) -> str:
    """Without blanks, as all other answers are."""
    return json.dumps(value, separators=(",", ":"))


def begun_last(transitions: Sequence[dict[str, Any]]) -> int:
    """How many changes of state there are up to the beginning of the last attempt; 0: none has begun."""
    return max((k for k, step in enumerate(transitions, start=1) if step["state"] == "running"), default=0)


class Part(NamedTuple):
    """Passes of a part of a history, and where the next part begins in the file, in bytes."""

    events: tuple[Event, ...]
    end: int


@lru_cache(_PARTS_KEPT)
def read_part(path: Path, begun: int, begin: int, end: int) -> Part:
    """The passes of the whole lines from byte `begin` on, of some PART_BYTES, at most up to byte `end`.

    begun  see `begun_last`: passes are numbered after the beginning of their attempt
    """
    text = b""
    if path.exists():
        with path.open("rb") as file:
            file.seek(begin)
            # A line of many lanes may be longer than a part.
            while b"\n" not in text and (more := file.read(min(PART_BYTES, end - begin - len(text)))):
                text += more
    text = text[: text.rfind(b"\n") + 1]
    passes = (record for _, record in records_of(text.split(b"\n")[:-1]) if "result" not in record)
    events = tuple(Event("pass", to_json(each), sequence_number(begun, each["pass"])) for each in passes)
    return Part(events, begin + len(text))


class Place:
    """Where a client is in the events of a job.

    after   number of the last event that it had seen when it came
    begun   of the attempt whose passes it is told, `begun_last`
    offset  bytes of the history that it has been told
    """

    def __init__(self, after: int) -> None:
        self._after, self._states_told = after, 0
        self.begun = self.offset = 0

    def states(self, transitions: Sequence[dict[str, Any]], until: int) -> tuple[Event, ...]:
        """Changes of state up to this many that it has not been told."""
        first, self._states_told = self._states_told, max(until, self._states_told)
        steps = enumerate(transitions[first:until], start=first + 1)
        return self.unseen(tuple(Event("state", to_json(step), sequence_number(k, 0)) for k, step in steps))

    def begin(self, begun: int) -> None:
        """Note the attempt that began last: the passes of another are told from their first."""
        if begun != self.begun:
            self.begun, self.offset = begun, 0

    def unseen(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Leave out the events that it had seen when it came."""
        are_new = all((event.number or 0) > self._after for event in events)
        return events if are_new else tuple(event for event in events if (event.number or 0) > self._after)
