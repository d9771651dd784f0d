"""The records of datasets, jobs and models of a data directory."""

import json
import sqlite3
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.clock import now
from streamsvm.service.records.ids import new_id
from streamsvm.service.records.jobs import JobRecords

DATASET_STATES = ("ingesting", "ready", "changing", "failed")


class Store(JobRecords):
    """Those of jobs, see JobRecords, and of datasets and models."""

    # datasets

    def add_dataset(self, name: str, source: dict[str, Any] | None = None) -> str:
        """Reserve a name; the dataset is `ingesting`, an import if it has a source. Returns its id.

        The name of one that has failed is free. Raises `dataset_exists`.
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
        """Its files are published. Whether it is still wanted."""
        with self._database.write() as connection:
            changed = connection.execute("UPDATE datasets SET state = 'ready' WHERE id = ?", (dataset_id,))
            return changed.rowcount > 0

    def fail_dataset(self, dataset_id: str, failure: dict[str, Any]) -> None:
        """It could not be imported; jobs that waited for it fail."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE datasets SET state = 'failed', failure = ? WHERE id = ?", (json.dumps(failure), dataset_id)
            )

    def next_import(self) -> dict[str, Any] | None:
        """The oldest that is to be imported."""
        found = self._all("SELECT * FROM datasets WHERE state = 'ingesting' AND source IS NOT NULL ORDER BY id LIMIT 1")
        return found[0] if found else None

    def dataset(self, name: str) -> dict[str, Any]:
        """The record, by name."""
        return self._one("SELECT * FROM datasets WHERE name = ?", name, "dataset")

    def dataset_state(self, dataset_id: str) -> str | None:
        """`ingesting`, `ready`, `changing` or `failed`; None if it is gone."""
        found = self._all("SELECT state FROM datasets WHERE id = ?", dataset_id)
        return found[0]["state"] if found else None

    def datasets(self) -> list[dict[str, Any]]:
        """All, by name."""
        return self._all("SELECT * FROM datasets ORDER BY name")

    def delete_dataset(self, dataset_id: str) -> None:
        """Forget it, also while it is read in; refused while a job that has not ended uses it, or it changes."""
        with self._database.write() as connection:
            _check_unused(connection, dataset_id)
            gone = connection.execute("DELETE FROM datasets WHERE id = ? AND state != 'changing'", (dataset_id,))
            if not gone.rowcount:
                raise ServiceError("not_ready", "the dataset is being changed")

    def begin_change(self, name: str) -> dict[str, Any]:
        """Rows of a ready dataset that no job uses are to change: it is `changing` until it is set ready again."""
        record = self.dataset(name)
        with self._database.write() as connection:
            _check_unused(connection, record["id"])
            begun = connection.execute(
                "UPDATE datasets SET state = 'changing' WHERE id = ? AND state = 'ready'", (record["id"],)
            )
            if not begun.rowcount:
                raise ServiceError("not_ready", f"dataset {name} is not ready")
        return record

    def adopt_dataset(self, dataset_id: str, name: str, made: str) -> None:
        """Put one that has files and was on no record on record; it was made at that time."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO datasets (id, name, state, created_at) VALUES (?, ?, 'ready', ?)", (dataset_id, name, made)
            )

    def drop_dataset(self, dataset_id: str) -> None:
        """Forget one that could not be read in; jobs that waited for it fail."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM datasets WHERE id = ?", (dataset_id,))

    # models

    def model(self, model_id: str) -> dict[str, Any]:
        """The record."""
        return self._one("SELECT * FROM models WHERE id = ?", model_id, "model")

    def models(self) -> list[dict[str, Any]]:
        """All, the newest first."""
        return self._all("SELECT * FROM models ORDER BY id DESC")

    def adopt_model(self, model_id: str, made: str) -> None:
        """Put one that has files and was on no record on record, without a job; it was made at that time."""
        with self._database.write() as connection:
            connection.execute("INSERT INTO models VALUES (?, '', ?)", (model_id, made))

    def delete_model(self, model_id: str) -> None:
        """Forget it; the job that made it stays."""
        with self._database.write() as connection:
            if not connection.execute("DELETE FROM models WHERE id = ?", (model_id,)).rowcount:
                raise ServiceError("unknown_model", "there is no such model")


def _check_unused(connection: sqlite3.Connection, dataset_id: str) -> None:
    used = connection.execute(
        "SELECT id FROM jobs WHERE dataset_id = ? AND state IN ('queued', 'running')", (dataset_id,)
    ).fetchone()
    if used:
        raise ServiceError("dataset_in_use", f"job {used['id']} uses the dataset", "Wait for it to end.")
