"""The records of datasets, jobs, models and predictions of a data directory."""

import json
import sqlite3
from typing import Any

from streamsvm.service.errors import ServiceError, unknown
from streamsvm.service.records.database import new_id, now
from streamsvm.service.records.models import ModelRecords
from streamsvm.service.records.table import check_unused, forget_unmade
from streamsvm.service.records.work import WorkRecords

DATASET_STATES = ("ingesting", "ready", "changing", "failed")


class Store(WorkRecords, ModelRecords):
    """The store of a data directory: the records of datasets, besides those of jobs, models and predictions."""

    def add_dataset(self, name: str, source: dict[str, Any] | None = None) -> str:
        """Reserve a name for a dataset in the state `ingesting`; return the dataset's id.

        source  file, options and so on of an import; None: the dataset is an upload
        A failed dataset of this name is replaced. Raises ServiceError dataset_exists.
        """
        dataset_id = new_id("ds")
        packed = None if source is None else json.dumps(source)
        try:
            with self._database.write() as connection:
                connection.execute("DELETE FROM datasets WHERE name = ? AND state = 'failed'", (name,))
                connection.execute(
                    "INSERT INTO datasets (id, name, state, created_at, source) VALUES (?, ?, 'ingesting', ?, ?)",
                    (dataset_id, name, now(), packed),
                )
        except sqlite3.IntegrityError:
            raise ServiceError(
                "dataset_exists", f"there is a dataset {name}", "Choose another name, or delete it first."
            ) from None
        return dataset_id

    def set_dataset_ready(self, dataset_id: str) -> bool:
        """Record that a dataset's files are complete; return False if the dataset has been deleted."""
        with self._database.write() as connection:
            query = "UPDATE datasets SET state = 'ready' WHERE id = ?"
            return connection.execute(query, (dataset_id,)).rowcount > 0

    def fail_dataset(self, dataset_id: str, failure: dict[str, Any]) -> None:
        """Record why a dataset could not be imported; the worker then fails jobs that wait for the dataset."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE datasets SET state = 'failed', failure = ? WHERE id = ?", (json.dumps(failure), dataset_id)
            )

    def next_import(self) -> dict[str, Any] | None:
        """Return the record of the oldest import to do; None if there is no import to do."""
        rows = self._all("SELECT * FROM datasets WHERE state = 'ingesting' AND source IS NOT NULL ORDER BY id LIMIT 1")
        return rows[0] if rows else None

    def dataset(self, name: str) -> dict[str, Any]:
        """Return the record of the dataset of this name. Raises ServiceError unknown_dataset."""
        try:
            return self._one("SELECT * FROM datasets WHERE name = ?", name, "dataset")
        except ServiceError as error:
            names = (row["name"] for row in self._all("SELECT name FROM datasets"))
            raise unknown(error.code, error.message, name, names) from None

    def dataset_state(self, dataset_id: str) -> str | None:
        """Return the state of a dataset, one of DATASET_STATES; None if the dataset has been deleted."""
        rows = self._all("SELECT state FROM datasets WHERE id = ?", dataset_id)
        return rows[0]["state"] if rows else None

    def datasets(self) -> list[dict[str, Any]]:
        """Return all records of datasets, sorted by name."""
        return self._all("SELECT * FROM datasets ORDER BY name")

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete the record of a dataset, even while ingest reads it.

        Raises ServiceError dataset_in_use if an unfinished job or prediction uses it, not_ready while it is `changing`.
        """
        with self._database.write() as connection:
            _check_unused(connection, dataset_id)
            gone = connection.execute("DELETE FROM datasets WHERE id = ? AND state != 'changing'", (dataset_id,))
            if not gone.rowcount:
                raise ServiceError("not_ready", "the dataset is being changed")

    def begin_change(self, name: str) -> dict[str, Any]:
        """Set a ready dataset that no job or prediction uses to `changing`, until `end_change`; return its record.

        Raises ServiceError unknown_dataset, dataset_in_use, not_ready.
        """
        record = self.dataset(name)
        with self._database.write() as connection:
            _check_unused(connection, record["id"])
            begun = connection.execute(
                "UPDATE datasets SET state = 'changing' WHERE id = ? AND state = 'ready'", (record["id"],)
            )
            if not begun.rowcount:
                raise ServiceError("not_ready", f"dataset {name} is not ready")
        return record

    def end_change(self, dataset_id: str, uid: str | None) -> None:
        """Set a `changing` dataset to `ready`; delete idempotency keys of requests whose rows it did not get.

        uid  uid of the dataset's contents now; None: its manifest cannot be read
        """
        with self._database.write() as connection:
            connection.execute("UPDATE datasets SET state = 'ready' WHERE id = ?", (dataset_id,))
            if uid is not None:
                forget_unmade(connection, dataset_id, uid)

    def adopt_dataset(self, dataset_id: str, name: str, created_at: str) -> None:
        """Record a dataset that has files but no record; `created_at` is when the dataset was made."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO datasets (id, name, state, created_at) VALUES (?, ?, 'ready', ?)",
                (dataset_id, name, created_at),
            )

    def drop_dataset(self, dataset_id: str) -> None:
        """Delete the record of a dataset whose ingest failed; the worker then fails jobs that wait for the dataset."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM datasets WHERE id = ?", (dataset_id,))


def _check_unused(connection: sqlite3.Connection, dataset_id: str) -> None:
    for users in ("jobs", "predictions"):
        check_unused(connection, users, "dataset", dataset_id)
