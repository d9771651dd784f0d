"""The records of datasets, jobs and models, in SQLite; every write is one transaction.

Progress is not kept here: a durable write costs too much for that.
"""

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.clock import now
from service.database import Database
from service.errors import ServiceError
from service.ids import new_id
from service.schema import migrate
from service.states import REQUESTS, TRANSITIONS, check_transition

DATASET_STATES = ("ingesting", "ready", "changing", "failed")
NOTHING: Mapping[str, Any] = {}
_JSON_COLUMNS = ("spec", "transitions", "progress", "result", "failure", "source")


class Store:
    """All operations raise ServiceError for what a user did wrong, sqlite3.Error for what the disk did."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        with self._database.write() as connection:
            migrate(connection)

    def change(self) -> tuple[int, ...]:
        """A mark that is another one after every write, whoever made it. Costs next to nothing."""
        return self._database.change()

    # datasets

    def add_dataset(self, name: str, source: dict[str, Any] | None = None, max_uploads: int = sys.maxsize) -> str:
        """Reserve a name; the dataset is `ingesting`, an import if it has a source. Returns its id.

        The name of one that has failed is free. Raises `dataset_exists`, `too_many_uploads`.
        """
        dataset_id = new_id("ds")
        packed = None if source is None else json.dumps(source)
        try:
            with self._database.write() as connection:
                if source is None:
                    _check_uploads(connection, max_uploads)
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
        """Forget it, or one that is being imported; refused while a job that has not ended uses it, or it changes."""
        with self._database.write() as connection:
            _check_unused(connection, dataset_id)
            gone = connection.execute(
                "DELETE FROM datasets WHERE id = ? AND (state IN ('ready', 'failed') OR source IS NOT NULL "
                "AND state = 'ingesting')",
                (dataset_id,),
            )
            if not gone.rowcount:
                raise ServiceError("not_ready", "the dataset is being read in or changed")

    def begin_change(self, name: str, max_uploads: int = sys.maxsize) -> dict[str, Any]:
        """Rows of a ready dataset that no job uses are to change: it is `changing` until it is set ready again.

        Raises `too_many_uploads`.
        """
        record = self.dataset(name)
        with self._database.write() as connection:
            _check_unused(connection, record["id"])
            _check_uploads(connection, max_uploads)
            begun = connection.execute(
                "UPDATE datasets SET state = 'changing' WHERE id = ? AND state = 'ready'", (record["id"],)
            )
            if not begun.rowcount:
                raise ServiceError("not_ready", f"dataset {name} is not ready")
        return record

    def drop_dataset(self, dataset_id: str) -> None:
        """Forget one that could not be read in; jobs that waited for it fail."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM datasets WHERE id = ?", (dataset_id,))

    # jobs

    def add_job(
        self, dataset_id: str, spec: dict[str, Any], max_queued: int = sys.maxsize, continues: str | None = None
    ) -> str:
        """Queue a job on a dataset that is there, or is being read in; returns its id. Raises `queue_full`."""
        job_id = new_id("job")
        first = json.dumps([{"state": "queued", "at": now()}])
        with self._database.write() as connection:
            queued = connection.execute("SELECT count(*) FROM jobs WHERE state = 'queued'").fetchone()[0]
            if queued >= max_queued:
                raise ServiceError("queue_full", f"{queued} jobs are waiting", "Wait for some to end.")
            added = connection.execute(
                "INSERT INTO jobs (id, dataset_id, spec, state, created_at, transitions, continues) "
                "SELECT ?, id, ?, 'queued', ?, ?, ? FROM datasets WHERE id = ? AND state IN ('ready', 'ingesting')",
                (job_id, json.dumps(spec), now(), first, continues, dataset_id),
            )
            if not added.rowcount:
                raise ServiceError("unknown_dataset", "there is no such dataset any more that could be trained on")
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """The record."""
        return self._one("SELECT * FROM jobs WHERE id = ?", job_id, "job")

    def jobs(self, state: str | None = None, before: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """All, or those in a state, or `most` of those submitted before the job with that id; the newest first."""
        return self._all(
            "SELECT * FROM jobs WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
            state, before, before, most,
        )  # fmt: skip

    def request(self, job_id: str, what: str) -> None:
        """Ask for an end, `stop` or `cancel`: of a running job its worker sees to it, a queued one is cancelled now."""
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is None:
                raise ServiceError("unknown_job", "there is no such job")
            # What is to be cancelled can no longer be stopped.
            check_transition("cancelled" if row["requested"] == "cancel" else row["state"], REQUESTS[what])
            if row["state"] == "running":
                connection.execute("UPDATE jobs SET requested = ? WHERE id = ?", (what, job_id))
            else:
                _move(connection, row, REQUESTS[what])
                connection.execute("UPDATE jobs SET finished_at = ? WHERE id = ?", (now(), job_id))

    def delete_job(self, job_id: str) -> None:
        """Forget a job that has ended; its model stays."""
        state = self.job(job_id)["state"]
        if TRANSITIONS[state]:
            raise ServiceError("not_possible", f"a job that is {state} cannot be deleted", "Cancel it first.")
        with self._database.write() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def claim_job(self, passed_over: Sequence[str] = ()) -> dict[str, Any] | None:
        """Take the oldest queued job but those: it is running from now on. None if there is none.

        A job that has followed a dataset that is being read in, and did not end, waits until that is done.
        """
        with self._database.write() as connection:
            row = connection.execute(
                "SELECT * FROM jobs WHERE state = 'queued' AND NOT (started_at IS NOT NULL AND EXISTS "
                "(SELECT 1 FROM datasets WHERE id = dataset_id AND state = 'ingesting')) "
                "AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY rowid LIMIT 1",
                (json.dumps(passed_over),),
            ).fetchone()
            if row is None:
                return None
            started = row["started_at"] or now()
            connection.execute(
                "UPDATE jobs SET attempt = attempt + 1, started_at = ? WHERE id = ?", (started, row["id"])
            )
            _move(connection, row, "running")
        return self.job(row["id"])

    def requeue_job(self, job_id: str, crashes: Mapping[str, int] = NOTHING, **because: Any) -> None:
        """Queue a running job once more: another attempt will take it. `because` is shown with the transition."""
        self._finish(job_id, "queued", dict(crashes), because)

    def explain_job(self, job_id: str, **because: Any) -> None:
        """Show something with the last transition of a job."""
        with self._database.write() as connection:
            found = connection.execute("SELECT transitions FROM jobs WHERE id = ?", (job_id,)).fetchone()
            *before, last = json.loads(found["transitions"])
            packed = json.dumps([*before, {**last, **because}])
            connection.execute("UPDATE jobs SET transitions = ? WHERE id = ?", (packed, job_id))

    def hand_back_job(self, job_id: str) -> None:
        """Queue a running job whose worker has to end: the attempt does not count."""
        self._finish(job_id, "queued", {"attempt": self.job(job_id)["attempt"] - 1})

    def finish_job(self, job_id: str, state: str, **columns: Any) -> str:
        """End a job, with any of progress, result, failure, model_id. Its model is on record from now on.

        Returns the state it is in: `cancelled` if someone asked for that, whatever came out.
        """
        return self._finish(job_id, state, {**columns, "finished_at": now()})

    def _finish(self, job_id: str, state: str, columns: dict[str, Any], because: Mapping[str, Any] = NOTHING) -> str:
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row["requested"] == "cancel" and row["state"] == "running":
                state, columns = "cancelled", {"finished_at": now()}
            _move(connection, row, state, because)
            for name, value in columns.items():
                packed = json.dumps(value) if name in _JSON_COLUMNS else value
                connection.execute(f"UPDATE jobs SET {name} = ? WHERE id = ?", (packed, job_id))
            if columns.get("model_id"):
                connection.execute("INSERT INTO models VALUES (?, ?, ?)", (columns["model_id"], job_id, now()))
        return state

    # models

    def model(self, model_id: str) -> dict[str, Any]:
        """The record."""
        return self._one("SELECT * FROM models WHERE id = ?", model_id, "model")

    def models(self) -> list[dict[str, Any]]:
        """All, the newest first."""
        return self._all("SELECT * FROM models ORDER BY id DESC")

    def delete_model(self, model_id: str) -> None:
        """Forget it; the job that made it stays."""
        with self._database.write() as connection:
            if not connection.execute("DELETE FROM models WHERE id = ?", (model_id,)).rowcount:
                raise ServiceError("unknown_model", "there is no such model")

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


def _check_uploads(connection: sqlite3.Connection, most: int) -> None:
    uploads = connection.execute(
        "SELECT count(*) FROM datasets WHERE state = 'changing' OR state = 'ingesting' AND source IS NULL"
    ).fetchone()[0]
    if uploads >= most:
        raise ServiceError("too_many_uploads", f"{uploads} uploads are under way", "Wait for one to end.")


def _move(connection: sqlite3.Connection, row: sqlite3.Row, state: str, because: Mapping[str, Any] = NOTHING) -> None:
    check_transition(row["state"], state)
    transitions = [*json.loads(row["transitions"]), {"state": state, "at": now(), **because}]
    connection.execute(
        "UPDATE jobs SET state = ?, transitions = ? WHERE id = ?", (state, json.dumps(transitions), row["id"])
    )


def _unpack(row: sqlite3.Row) -> dict[str, Any]:
    record = dict(row)
    for name in _JSON_COLUMNS:
        if record.get(name) is not None:
            record[name] = json.loads(record[name])
    return record


def _check_unused(connection: sqlite3.Connection, dataset_id: str) -> None:
    used = connection.execute(
        "SELECT id FROM jobs WHERE dataset_id = ? AND state IN ('queued', 'running')", (dataset_id,)
    ).fetchone()
    if used:
        raise ServiceError("dataset_in_use", f"job {used['id']} uses the dataset", "Wait for it to end.")
