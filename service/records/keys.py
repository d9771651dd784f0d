"""The keys of requests that created a job or added rows: if one comes again, it gets the first answer."""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from streamsvm.service.records.stamps import now, rfc3339
from streamsvm.service.records.table import Records

_KEPT = timedelta(days=1)


class RequestKey(NamedTuple):
    """A client, the key that it sent with a request, and a hash of the request's path and body."""

    client: str
    key: str
    request_hash: str

    def note(self, connection: sqlite3.Connection, made: str) -> None:
        """Note, within the transaction that adds a job, that this request has made it; forget keys of earlier days.

        made  the job's id; of rows, see `KeyRecords.note_rows`

        Raises sqlite3.IntegrityError if the client has used the key.
        """
        connection.execute("DELETE FROM request_keys WHERE made_at < ?", (rfc3339(datetime.now(UTC) - _KEPT),))
        connection.execute("INSERT INTO request_keys VALUES (?, ?, ?, ?, ?, NULL)", (*self, now(), made))


class KeyRecords(Records):
    """The keys of the last day."""

    def answered(self, client: str, key: str) -> dict[str, Any] | None:
        """request_hash, job_id, and answer (JSON; None: the service died before it could be kept); None: a new key."""
        since = rfc3339(datetime.now(UTC) - _KEPT)
        query = "SELECT * FROM request_keys WHERE client = ? AND key = ? AND made_at >= ?"
        rows = self._database.rows(query, client, key, since)
        return dict(rows[0]) if rows else None

    def keep_answer(self, key: RequestKey, answer: str) -> None:
        """Keep the answer to the request that a key was noted for."""
        with self._database.write() as connection:
            changed = "UPDATE request_keys SET answer = ? WHERE client = ? AND key = ?"
            connection.execute(changed, (answer, key.client, key.key))

    def note_rows(self, key: RequestKey, dataset_id: str, uid: str) -> None:
        """Note that a request is about to add rows to a dataset whose contents have this uid."""
        with self._database.write() as connection:
            key.note(connection, _rows_beside(dataset_id, uid))


def forget_unmade(connection: sqlite3.Connection, dataset_id: str, uid: str) -> None:
    """Forget requests that were to add rows to a dataset and have not: its contents still have the uid noted."""
    made = _rows_beside(dataset_id, uid)
    connection.execute("DELETE FROM request_keys WHERE job_id = ? AND answer IS NULL", (made,))


def _rows_beside(dataset_id: str, uid: str) -> str:
    return f"{dataset_id} {uid}"
