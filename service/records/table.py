"""The base of the records of datasets, jobs and models: their tables, JSON columns, and idempotency keys of requests.

If a request with the same key comes again, it gets the answer of the first one.

A running job's progress is not in the records, since durable writes would be too slow.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.background import Later
from streamsvm.service.records.database import Database, now, rfc3339

T = TypeVar("T")
_FILE = "names-changed"
_KEPT = timedelta(days=1)  # how long idempotency keys of requests are kept
# JSON column -> the value that replaces unreadable JSON.
JSON_COLUMNS: dict[str, Any] = {
    "spec": {}, "transitions": [], "progress": None, "result": None, "failure": None, "source": None,
}  # fmt: skip

# SQL that turns each version of the schema into the next.
_MIGRATIONS = (
    """
CREATE TABLE datasets (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, dataset_id TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL, started_at TEXT, finished_at TEXT,
    transitions TEXT NOT NULL, progress TEXT, result TEXT, failure TEXT, model_id TEXT);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE models (
    id TEXT PRIMARY KEY, job_id TEXT NOT NULL, created_at TEXT NOT NULL);
""",
    "ALTER TABLE jobs ADD COLUMN requested TEXT;",
    # source: what is imported into it; failure: why it could not be.
    "ALTER TABLE datasets ADD COLUMN source TEXT; ALTER TABLE datasets ADD COLUMN failure TEXT;",
    # continues: id of the job it goes on from; crashes: their number without a checkpoint newer than crash_checkpoint.
    "ALTER TABLE jobs ADD COLUMN continues TEXT; ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN crash_checkpoint INTEGER NOT NULL DEFAULT -1;",
    # answer: JSON; job_id: the job made, or the dataset that got rows, see `RequestKey`.
    "CREATE TABLE request_keys (client TEXT NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL, "
    "made_at TEXT NOT NULL, job_id TEXT NOT NULL, answer TEXT, PRIMARY KEY (client, key));",
    # last_version: no number is given twice; version of a move: null if the alias was deleted.
    """
CREATE TABLE registered (name TEXT PRIMARY KEY, created_at TEXT NOT NULL, last_version INTEGER NOT NULL);
CREATE TABLE versions (
    name TEXT NOT NULL, version INTEGER NOT NULL, model_id TEXT NOT NULL, created_at TEXT NOT NULL,
    PRIMARY KEY (name, version));
CREATE INDEX versions_by_model ON versions (model_id);
CREATE TABLE alias_moves (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, alias TEXT NOT NULL, version INTEGER,
    moved_at TEXT NOT NULL, moved_by TEXT NOT NULL);
CREATE INDEX moves_by_alias ON alias_moves (name, alias, id);
""",
    # body: JSON; made_at, due_at: seconds since 1970; attempts: calls that have failed.
    "CREATE TABLE notifications (id TEXT PRIMARY KEY, job_id TEXT NOT NULL, url TEXT NOT NULL, host TEXT NOT NULL, "
    "body TEXT NOT NULL, made_at REAL NOT NULL, attempts INTEGER NOT NULL, due_at REAL NOT NULL);",
    # client: who submitted the job.
    "ALTER TABLE jobs ADD COLUMN client TEXT;",
    # crashes: since the prediction had crash_pieces pieces.
    """
CREATE TABLE predictions (
    id TEXT PRIMARY KEY, model_id TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0, crash_pieces INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL, started_at TEXT, finished_at TEXT, requested TEXT, result TEXT, failure TEXT);
CREATE INDEX predictions_by_state ON predictions (state);
""",
    # dataset_id: id of the dataset whose rows are predicted. Nothing reads the columns client and bytes any more.
    """
ALTER TABLE predictions ADD COLUMN dataset_id TEXT;
ALTER TABLE datasets ADD COLUMN client TEXT;
ALTER TABLE datasets ADD COLUMN bytes INTEGER;
""",
    # Notifications and the logging of jobs were removed; the last transition of a job had their status.
    """
DROP TABLE notifications;
UPDATE jobs SET transitions = (
    SELECT json_group_array(json_remove(value, '$.notified', '$.tracking')) FROM json_each(transitions))
WHERE json_valid(transitions) AND (transitions LIKE '%"notified"%' OR transitions LIKE '%"tracking"%');
""",
)


class RequestKey(NamedTuple):
    """A client, the idempotency key that it sent with a request, and a hash of the request's path and body."""

    client: str
    key: str
    request_hash: str

    def note(self, connection: sqlite3.Connection, made: str) -> None:
        """Record, in the transaction that adds a job, that this request has made it; delete keys older than a day.

        made  id of the job, or a text for added rows, see `Records.note_rows`

        Raises sqlite3.IntegrityError if the client has used the key before.
        """
        connection.execute("DELETE FROM request_keys WHERE made_at < ?", (rfc3339(datetime.now(UTC) - _KEPT),))
        connection.execute("INSERT INTO request_keys VALUES (?, ?, ?, ?, ?, NULL)", (*self, now(), made))


class Records:
    """The base of all records. Operations raise ServiceError for a user's mistake, sqlite3.Error if the disk fails.

    names  attribute: shows other processes that names of models have changed
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self.names = _NameChanges(path)
        self.later = Later()
        with self._database.write() as connection:
            _migrate(connection)

    def change(self) -> tuple[int, ...]:
        """Return a value that differs after every write of any process, see `Database.change`."""
        return self._database.change()

    def count_by_state(self, table: str) -> dict[str, int]:
        """Return state -> number of records of a table that has states, such as "datasets" or "jobs"."""
        return {row["state"]: row["n"] for row in self._all(f"SELECT state, count(*) AS n FROM {table} GROUP BY state")}

    def answered(self, client: str, key: str) -> dict[str, Any] | None:
        """Return request_hash, job_id and answer (JSON; None: never stored) of a used key; None: the key is new."""
        since = rfc3339(datetime.now(UTC) - _KEPT)
        query = "SELECT * FROM request_keys WHERE client = ? AND key = ? AND made_at >= ?"
        rows = self._database.rows(query, client, key, since)
        return dict(rows[0]) if rows else None

    def keep_answer(self, key: RequestKey, answer: str) -> None:
        """Store the answer to the request whose key `RequestKey.note` has recorded."""
        with self._database.write() as connection:
            changed = "UPDATE request_keys SET answer = ? WHERE client = ? AND key = ?"
            connection.execute(changed, (answer, key.client, key.key))

    def note_rows(self, key: RequestKey, dataset_id: str, uid: str) -> None:
        """Record that a request is about to add rows to a dataset whose contents still have this uid."""
        with self._database.write() as connection:
            key.note(connection, _rows_beside(dataset_id, uid))

    def _one(self, query: str, key: str, kind: str) -> dict[str, Any]:
        rows = self._all(query, key)
        if not rows:
            raise ServiceError(f"unknown_{kind}", f"there is no such {kind}")
        return rows[0]

    def _all(self, query: str, *values: str | int | None) -> list[dict[str, Any]]:
        return [unpacked(row) for row in self._database.rows(query, *values)]


def unpacked(row: sqlite3.Row) -> dict[str, Any]:
    """Return a row of a table as a dict, its JSON columns parsed."""
    record = dict(row)
    for name in JSON_COLUMNS:
        if record.get(name) is not None:
            record[name] = unpack(name, record[name])
    return record


def check_unused(connection: sqlite3.Connection, users: str, kind: str, key: str) -> None:
    """Raise ServiceError model_in_use or dataset_in_use if an unfinished job or prediction (of `users`) needs it."""
    query = f"SELECT id FROM {users} WHERE {kind}_id = ? AND state IN ('queued', 'running')"
    if used := connection.execute(query, (key,)).fetchone():
        message = f"{users[:-1]} {used['id']} uses the {kind}"
        raise ServiceError(f"{kind}_in_use", message, "Wait for it to end.")


def set_columns(connection: sqlite3.Connection, table: str, key: str, **columns: Any) -> None:
    """Set columns of the record with this id."""
    names = ", ".join(f"{name} = ?" for name in columns)
    is_json = JSON_COLUMNS.keys() - {name for name, value in columns.items() if value is None}
    values = [json.dumps(value) if name in is_json else value for name, value in columns.items()]
    connection.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*values, key))


def unpack(name: str, packed: str) -> Any:
    """Parse the JSON of a column. Numbers that are not finite become None.

    Returns the column's default in JSON_COLUMNS if the JSON is damaged.
    """
    try:
        value = json.loads(packed, parse_constant=lambda _: None)
    except ValueError:
        return JSON_COLUMNS[name]
    return value if value is None or isinstance(value, list if name == "transitions" else dict) else JSON_COLUMNS[name]


def fault_of(connection: sqlite3.Connection, apart: tuple[str, ...]) -> str | None:
    """Say why the tables of a store are not those of its version; None: they are, or the version is newer than known.

    apart  SQL that makes the tables that a store of any version may have
    """
    version, found = _version(connection), _columns(connection)
    if version < 0:
        return f"no store has version {version}"
    if version > len(_MIGRATIONS):
        return None
    own, newest = (_made_by(_MIGRATIONS[:number]) for number in (version, len(_MIGRATIONS)))
    besides = {(table, column) for table, column in _made_by(apart) if (table, "") in found}
    if lacking := sorted((own | besides) - found):
        return f"it says that it has version {version}, but has no {_called(*lacking[0])}"
    if beyond := sorted((newest - own) & found):
        return f"it says that it has version {version}, but has the {_called(*beyond[0])} of a later one"
    return None


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return all columns as pairs (table, column), and a pair (table, "") for each table."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    columns = "SELECT name FROM pragma_table_info(?)"
    found = {(table, name) for table in tables for (name,) in connection.execute(columns, (table,)).fetchall()}
    return {*((table, "") for table in tables), *found}


@cache
def _made_by(statements: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return the tables and columns that SQL statements make, as `_columns` does."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(";".join(statements))
        return _columns(connection)


def _called(table: str, column: str) -> str:
    return f"column {column} in table {table}" if column else f"table {table}"


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring a new or older store to this version. Raises ServiceError `unknown_version` for a newer one."""
    version = _version(connection)
    if not 0 <= version <= len(_MIGRATIONS):
        message = f"the store has version {version}, and this program knows versions up to {len(_MIGRATIONS)}"
        raise ServiceError("unknown_version", message, "A newer StreamSVM has written it: start that, or a newer one.")
    if version == len(_MIGRATIONS):
        return  # without a write, so that a store on a full disk can be opened
    for statement in "".join(_MIGRATIONS[version:]).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")


class _NameChanges:
    """The time of a file beside the records, which shows that names, versions or aliases of models have changed."""

    def __init__(self, records: Path) -> None:
        self._path = str(records.with_name(_FILE))

    def mark(self) -> int | None:
        """Return a number that differs after each change by any process; None if there is no file."""
        try:
            return os.stat(self._path).st_mtime_ns  # noqa: PTH116 - many times a second
        except OSError:
            return None

    def note(self) -> None:
        """Show a change that is recorded, before the client gets an answer. On a failing disk, readers see it later."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Clocks can be set back, and a file's own clock ticks.
                at = max(time.time_ns(), os.fstat(descriptor).st_mtime_ns + 1)
                os.utime(descriptor, ns=(at, at))
            finally:
                os.close(descriptor)


def forget_unmade(connection: sqlite3.Connection, dataset_id: str, uid: str) -> None:
    """Delete keys of requests that did not add rows to a dataset: its contents still have the uid recorded for them."""
    made = _rows_beside(dataset_id, uid)
    connection.execute("DELETE FROM request_keys WHERE job_id = ? AND answer IS NULL", (made,))


def _rows_beside(dataset_id: str, uid: str) -> str:
    return f"{dataset_id} {uid}"


class LastRead(Generic[T]):
    """Calls a query of the records, but returns its last result if no process has written to them since.

    Callers share the result, and must not change it.
    """

    def __init__(self, records: Records, query: Callable[[], T]) -> None:
        self._records, self._query = records, query
        self._change: tuple[int, ...] | None = None
        self._result: T

    def __call__(self) -> T:
        """Return the result as of now. Raises what the query raises; the next call then repeats the query."""
        change = self._records.change()
        if change != self._change:
            self._result = self._query()
            self._change = change
        return self._result
