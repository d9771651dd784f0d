"""The notifications that are due: written in the transaction that ends a job, deleted when they are settled."""

import json
import sqlite3
from collections.abc import Collection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from streamsvm.service.records.stamps import new_id, now
from streamsvm.service.records.table import Records, unpack
from streamsvm.service.records.transitions import explain

# Columns of a job that a notification tells.
_TOLD = ("id", "state", "created_at", "started_at", "finished_at", "model_id")


class Notification(NamedTuple):
    """
    id        of the event; it stays the same when the call is repeated
    host      of the URL
    body      JSON
    made_at   when the job ended, in seconds since 1970
    attempts  calls that have failed
    due_at    when the next call is due, in seconds since 1970
    """

    id: str
    job_id: str
    url: str
    host: str
    body: str
    made_at: float
    attempts: int
    due_at: float


def note_end(connection: sqlite3.Connection, job_id: str, at: float) -> None:
    """Note, within the transaction that ends a job, that its `notify` has to be called. `at`: seconds since 1970."""
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    spec = unpack("spec", row["spec"])
    if not (url := spec.get("notify")):
        return
    host = (urlsplit(url).hostname or "").lower()
    noted = Notification(new_id("ntf"), job_id, url, host, _event(row, spec), at, 0, at)
    connection.execute("INSERT INTO notifications VALUES (?, ?, ?, ?, ?, ?, ?, ?)", noted)
    explain(connection, job_id, {"notified": {"state": "waiting", "attempts": 0}})


def _event(row: sqlite3.Row, spec: dict[str, Any]) -> str:
    result, failure = (unpack(name, row[name]) if row[name] else None for name in ("result", "failure"))
    data = {
        **{name: row[name] for name in _TOLD},
        "dataset": spec.get("dataset"),
        "model_name": spec.get("model_name"),
        "labels": spec.get("labels", {}),
        "converged": result and result.get("converged"),
        "stop_reason": result and result.get("stop_reason"),
        "failure": failure,
    }
    return json.dumps({"type": f"job.{row['state']}", "timestamp": now(), "data": data}, separators=(",", ":"))


class NotificationRecords(Records):
    """The notifications that have not been settled."""

    def next_notification(self, ids: Collection[str] = (), hosts: Collection[str] = ()) -> Notification | None:
        """The one that is due first, except these ids and hosts; None if there is none."""
        rows = self._database.rows(
            "SELECT * FROM notifications WHERE id NOT IN (SELECT value FROM json_each(?)) "
            "AND host NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at LIMIT 1",
            json.dumps([*ids]), json.dumps([*hosts]),
        )  # fmt: skip
        return Notification(*rows[0]) if rows else None

    def delay_notification(self, notification: Notification, due_at: float, **facts: Any) -> None:
        """Count a failed call; the next one is due at a time. The facts are added to the job's `notified`."""
        attempts = notification.attempts + 1
        with self._database.write() as connection:
            changed = "UPDATE notifications SET attempts = ?, due_at = ? WHERE id = ?"
            connection.execute(changed, (attempts, due_at, notification.id))
            told = {"state": "waiting", "attempts": attempts, **facts}
            explain(connection, notification.job_id, {"notified": told})

    def settle_notification(self, notification: Notification, state: str, **facts: Any) -> None:
        """Forget a notification that was `delivered` or is `given_up`; the job's `notified` tells it."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM notifications WHERE id = ?", (notification.id,))
            told = {"state": state, "at": now(), "attempts": notification.attempts + 1, **facts}
            explain(connection, notification.job_id, {"notified": told})
