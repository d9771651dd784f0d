"""What the records of datasets, jobs and models have in common: one SQLite file, columns of JSON, a key each.

Every write is one transaction. Progress is not kept here: a durable write costs too much for that.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.background import Later
from streamsvm.service.records.database import Database
from streamsvm.service.records.schema import migrate

# Columns of JSON, and what stands for one that cannot be read.
JSON_COLUMNS: dict[str, Any] = {
    "spec": {}, "transitions": [], "progress": None, "result": None, "failure": None, "source": None,
}  # fmt: skip


class Records:
    """All operations raise ServiceError for what a user did wrong, sqlite3.Error for what the disk did."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self.later = Later()
        with self._database.write() as connection:
            migrate(connection)

    def change(self) -> tuple[int, ...]:
        """A mark that is another one after every write, whoever made it. Costs next to nothing."""
        return self._database.change()

    def count_by_state(self, table: str) -> dict[str, int]:
        """How many datasets, or jobs, are in each state."""
        return {row["state"]: row["n"] for row in self._all(f"SELECT state, count(*) AS n FROM {table} GROUP BY state")}

    def _one(self, query: str, key: str, kind: str) -> dict[str, Any]:
        rows = self._all(query, key)
        if not rows:
            raise ServiceError(f"unknown_{kind}", f"there is no such {kind}")
        return rows[0]

    def _all(self, query: str, *values: str | int | None) -> list[dict[str, Any]]:
        return [_unpack(row) for row in self._database.rows(query, *values)]


def _unpack(row: sqlite3.Row) -> dict[str, Any]:
    record = dict(row)
    for name in JSON_COLUMNS:
        if record.get(name) is not None:
            record[name] = unpack(name, record[name])
    return record


def unpack(name: str, packed: str) -> Any:
    """The value of such a column, numbers that are not finite as None. Damage is no error: it costs its record."""
    try:
        value = json.loads(packed, parse_constant=lambda _: None)
    except ValueError:
        return JSON_COLUMNS[name]
    return value if value is None or isinstance(value, list if name == "transitions" else dict) else JSON_COLUMNS[name]
