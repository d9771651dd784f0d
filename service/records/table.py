"""The base of the records of datasets, jobs and models: their tables, and columns of JSON.

A running job's progress is not in the records: durable writes would be too slow for it.
"""

import json
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.background import Later
from streamsvm.service.records.database import Database
from streamsvm.service.records.name_changes import NameChanges

# Columns of JSON -> the value that replaces unreadable JSON.
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
    # continues: the job it goes on from; crashes without a newer checkpoint than that number.
    "ALTER TABLE jobs ADD COLUMN continues TEXT; ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN crash_checkpoint INTEGER NOT NULL DEFAULT -1;",
    # answer: JSON; job_id: the job made, or the dataset that got rows, see `service.records.keys`.
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
    # crashes since it had so many crash_pieces.
    """
CREATE TABLE predictions (
    id TEXT PRIMARY KEY, model_id TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0, crash_pieces INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL, started_at TEXT, finished_at TEXT, requested TEXT, result TEXT, failure TEXT);
CREATE INDEX predictions_by_state ON predictions (state);
""",
    # dataset_id: of the dataset whose rows are predicted. Nothing reads client and bytes of datasets any more.
    """
ALTER TABLE predictions ADD COLUMN dataset_id TEXT;
ALTER TABLE datasets ADD COLUMN client TEXT;
ALTER TABLE datasets ADD COLUMN bytes INTEGER;
""",
    # Nobody is notified any more, and no job logged: the last transition of a job told how that stood.
    """
DROP TABLE notifications;
UPDATE jobs SET transitions = (
    SELECT json_group_array(json_remove(value, '$.notified', '$.tracking')) FROM json_each(transitions))
WHERE json_valid(transitions) AND (transitions LIKE '%"notified"%' OR transitions LIKE '%"tracking"%');
""",
)


class Records:
    """All operations raise ServiceError for a user's mistake, sqlite3.Error if the disk fails.

    names  tells that names of models have changed
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self.names = NameChanges(path)
        self.later = Later()
        with self._database.write() as connection:
            _migrate(connection)

    def change(self) -> tuple[int, ...]:
        """A value that differs after every write of any process, see `Database.change`."""
        return self._database.change()

    def count_by_state(self, table: str) -> dict[str, int]:
        """The number of datasets, or jobs, in each state."""
        return {row["state"]: row["n"] for row in self._all(f"SELECT state, count(*) AS n FROM {table} GROUP BY state")}

    def _one(self, query: str, key: str, kind: str) -> dict[str, Any]:
        rows = self._all(query, key)
        if not rows:
            raise ServiceError(f"unknown_{kind}", f"there is no such {kind}")
        return rows[0]

    def _all(self, query: str, *values: str | int | None) -> list[dict[str, Any]]:
        return [unpacked(row) for row in self._database.rows(query, *values)]


def unpacked(row: sqlite3.Row) -> dict[str, Any]:
    """The record of a row, its JSON parsed."""
    record = dict(row)
    for name in JSON_COLUMNS:
        if record.get(name) is not None:
            record[name] = unpack(name, record[name])
    return record


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
    """Why the tables of a store cannot be those of its version; None: they can, or a newer program has made them.

    apart  SQL that makes tables which a store of any version may have
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
    """All columns as (table, column); (table, "") for each table."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    columns = "SELECT name FROM pragma_table_info(?)"
    found = {(table, name) for table in tables for (name,) in connection.execute(columns, (table,)).fetchall()}
    return {*((table, "") for table in tables), *found}


@cache
def _made_by(statements: tuple[str, ...]) -> set[tuple[str, str]]:
    """The columns that SQL makes."""
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
