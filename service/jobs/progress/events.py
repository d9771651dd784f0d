"""A job's changes as numbered events: a client that has seen one can go on after it."""

import json
from dataclasses import dataclass
from typing import Any

from streamsvm.service.jobs.progress.views import sequence_number


@dataclass(frozen=True)
class Event:
    """`kind` is state, pass, progress, end or ping; those with a number are told once, in its order."""

    kind: str
    data: str
    number: int | None = None


def news(transitions: list[dict[str, Any]], passes: list[dict[str, Any]], after: int) -> list[Event]:
    """Changes of state, and passes of the attempt begun last, that are numbered beyond `after`, in order."""
    begun = max((k for k, step in enumerate(transitions, start=1) if step["state"] == "running"), default=0)
    states = [Event("state", to_json(step), sequence_number(k, 0)) for k, step in enumerate(transitions, start=1)]
    finished = [Event("pass", to_json(record), sequence_number(begun, record["pass"])) for record in passes]
    return [event for event in (*states[:begun], *finished, *states[begun:]) if (event.number or 0) > after]


def to_json(value: Any) -> str:
    """Without blanks, as all other answers are."""
    return json.dumps(value, separators=(",", ":"))
