"""The states of a job on record: each change is checked, and listed in the job's `transitions`."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from streamsvm.service.jobs.progress.states import check_transition
from streamsvm.service.records.stamps import now
from streamsvm.service.records.table import unpack

NOTHING: Mapping[str, Any] = {}


def move(connection: sqlite3.Connection, row: sqlite3.Row, state: str, because: Mapping[str, Any] = NOTHING) -> None:
    """Set a job to a state; `because` is added to the transition. Raises ServiceError not_possible."""
    check_transition(row["state"], state)
    transitions = [*unpack("transitions", row["transitions"]), {"state": state, "at": now(), **because}]
    connection.execute(
        "UPDATE jobs SET state = ?, transitions = ? WHERE id = ?", (state, json.dumps(transitions), row["id"])
    )


def explain(connection: sqlite3.Connection, job_id: str, because: Mapping[str, Any]) -> None:
    """Add facts to the last transition of a job, unless its record is deleted."""
    row = connection.execute("SELECT transitions FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is not None:
        *before, last = unpack("transitions", row["transitions"]) or [{}]
        packed = json.dumps([*before, {**last, **because}])
        connection.execute("UPDATE jobs SET transitions = ? WHERE id = ?", (packed, job_id))
