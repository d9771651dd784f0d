"""The records of datasets and jobs; `Store` has all records of a data directory."""

import json
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from streamsvm.service.errors import ServiceError, unknown
from streamsvm.service.jobs.progress.states import REQUESTS, TRANSITIONS, check_transition
from streamsvm.service.records.database import new_id, now
from streamsvm.service.records.models import ModelRecords, add_version
from streamsvm.service.records.predictions import PredictionRecords
from streamsvm.service.records.table import (
    Records,
    RequestKey,
    check_unused,
    forget_unmade,
    set_columns,
    unpack,
    unpacked,
)
from streamsvm.service.shares import share_of

_NOTHING: Mapping[str, Any] = {}
PAGE_BYTES = 4 << 20
_SIZE = "length(spec) + length(transitions) + ifnull(length(progress), 0) + ifnull(length(result), 0)"
# A job with a damaged spec has priority 0: the query must not fail.
_WAITING = (
    "SELECT * FROM jobs WHERE state = 'queued' AND NOT (started_at IS NOT NULL AND EXISTS "
    "(SELECT 1 FROM datasets WHERE id = dataset_id AND state = 'ingesting')) "
    "ORDER BY CASE WHEN json_valid(spec) THEN ifnull(json_extract(spec, '$.priority'), 0) ELSE 0 END DESC, rowid"
)


class JobRecords(Records):
    """The records of jobs. Each change of a job's state is checked, and listed in the job's `transitions`."""

    def add_job(
        self,
        dataset_id: str,
        spec: dict[str, Any],
        max_queued: int = sys.maxsize,
        continues: str | None = None,
        key: RequestKey | None = None,
        client: str | None = None,
    ) -> str:
        """Queue a job on a dataset that is ready or being read in; return the job's id.

        max_queued  limit of jobs in the queue; a client may have `share_of(max_queued)`
        continues   id of the job from which this job goes on
        key         idempotency key of the request
        Raises ServiceError queue_full, unknown_dataset.
        """
        job_id = new_id("job")
        first = json.dumps([{"state": "queued", "at": now()}])
        with self._database.write() as connection:
            _check_room(connection, max_queued, client)
            added = connection.execute(
                "INSERT INTO jobs (id, dataset_id, spec, state, created_at, transitions, continues, client) "
                "SELECT ?, id, ?, 'queued', ?, ?, ?, ? FROM datasets WHERE id = ? AND state IN ('ready', 'ingesting')",
                (job_id, json.dumps(spec), now(), first, continues, client, dataset_id),
            )
            if not added.rowcount:
                raise ServiceError("unknown_dataset", "there is no such dataset to train on any more")
            if key is not None:
                key.note(connection, job_id)
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        """Return the record of a job. Raises ServiceError unknown_job."""
        return self._one("SELECT * FROM jobs WHERE id = ?", job_id, "job")

    def jobs(self, state: str | None = None, before: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Return at most `most` records of jobs in `state`, submitted before the job `before`, the newest first."""
        return self._all(
            "SELECT * FROM jobs WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
            state, before, before, most,
        )  # fmt: skip

    def job_states(self) -> dict[str, str]:
        """Return job id -> state for all jobs, without reading the rest of their records."""
        return {row["id"]: row["state"] for row in self._database.rows("SELECT id, state FROM jobs")}

    def jobs_queued_again(self) -> list[dict[str, Any]]:
        """Return the records of queued jobs that have run before."""
        return self._all("SELECT * FROM jobs WHERE state = 'queued' AND started_at IS NOT NULL")

    def page_of_jobs(
        self, state: str | None, before: str | None, most: int, most_bytes: int = PAGE_BYTES
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the first of `jobs`: up to `most` and `most_bytes`, but at least one; and whether there are more."""
        sizes = self._all(
            f"SELECT id, {_SIZE} AS size FROM jobs WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) "
            "ORDER BY id DESC LIMIT ?",
            state, before, before, most + 1,
        )  # fmt: skip
        sums = accumulate(each["size"] for each in sizes[:most])
        ids = [each["id"] for each, size in zip(sizes, sums, strict=False) if size <= most_bytes]
        ids = ids or [each["id"] for each in sizes[:1]]
        query = "SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC"
        return self._all(query, json.dumps(ids)), len(ids) < len(sizes)

    def request(self, job_id: str, what: str) -> None:
        """Stop or cancel a job (`what`): a queued job ends at once, the worker ends a running job."""
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is None:
                raise ServiceError("unknown_job", "there is no such job")
            # After a request to cancel, the job counts as cancelled, and can no longer be stopped.
            check_transition("cancelled" if row["requested"] == "cancel" else row["state"], REQUESTS[what])
            if row["state"] == "running":
                set_columns(connection, "jobs", job_id, requested=what)
            else:
                _move(connection, row, REQUESTS[what], finished_at=now())

    def requests(self) -> dict[str, str]:
        """Return the requests to running jobs: id of a job -> `stop` or `cancel`."""
        rows = self._database.rows("SELECT id, requested FROM jobs WHERE state = 'running' AND requested IS NOT NULL")
        return {row["id"]: row["requested"] for row in rows}

    def delete_job(self, job_id: str) -> None:
        """Delete the record of an ended job; its models stay. Raises ServiceError unknown_job, not_possible."""
        state = self.job(job_id)["state"]
        if TRANSITIONS[state]:
            raise ServiceError("not_possible", f"a job that is {state} cannot be deleted", "Cancel it first.")
        with self._database.write() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def waiting_jobs(self, most: int) -> list[dict[str, Any]]:
        """Return at most `most` records of queued jobs that may run now: the highest priority first, then the oldest.

        A job that has run before may not run while its dataset is still being read in.
        """
        return self._all(f"{_WAITING} LIMIT ?", most)

    def claim_job(self, job_id: str | None = None) -> dict[str, Any] | None:
        """Set a queued job, by default the first of `waiting_jobs`, to running; return its record.

        Returns None if the job is no longer queued, or no job waits.
        """
        with self._database.write() as connection:
            if job_id is None:
                row = connection.execute(f"{_WAITING} LIMIT 1").fetchone()
            else:
                query = "SELECT * FROM jobs WHERE id = ? AND state = 'queued'"
                row = connection.execute(query, (job_id,)).fetchone()
            if row is None:
                return None
            _move(connection, row, "running", attempt=row["attempt"] + 1, started_at=row["started_at"] or now())
            # Read before the commit: if reading fails, no job is recorded as running that nobody runs.
            claimed = connection.execute("SELECT * FROM jobs WHERE id = ?", (row["id"],)).fetchone()
        return unpacked(claimed)

    def count_crash(self, job_id: str) -> int:
        """Count a crash of a running job; return the number of crashes since its last progress."""
        with self._database.write() as connection:
            connection.execute("UPDATE jobs SET crashes = crashes + 1 WHERE id = ?", (job_id,))
            return connection.execute("SELECT crashes FROM jobs WHERE id = ?", (job_id,)).fetchone()[0]

    def requeue_job(self, job_id: str, crashes: Mapping[str, int] = _NOTHING, **because: Any) -> None:
        """Queue a running job for another attempt, or cancel it on request; `because` is added to the transition.

        crashes  columns to set: `crashes`, `crash_checkpoint`
        """
        self._finish(job_id, "queued", dict(crashes), because)

    def explain_job(self, job_id: str, **because: Any) -> None:
        """Add the facts in `because` to the last transition of a job."""
        with self._database.write() as connection:
            row = connection.execute("SELECT transitions FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is not None:  # else its record has been deleted
                *before, last = unpack("transitions", row["transitions"]) or [{}]
                set_columns(connection, "jobs", job_id, transitions=[*before, {**last, **because}])

    def hand_back_job(self, job_id: str) -> None:
        """Queue a running job whose worker has to end; the attempt is not counted."""
        self._finish(job_id, "queued", {"attempt": self.job(job_id)["attempt"] - 1})

    def finish_job(self, job_id: str, state: str, models: Sequence[str] = (), **columns: Any) -> str:
        """Set a job to a terminal state, and record the models with the ids `models` and `model_id`.

        columns  any of progress, result, failure, model_id
        The model `model_id` becomes the next version of the job's `model_name`, if the job has that field.
        Returns the new state, which is `cancelled` if the job was to be cancelled, whatever `state` is.
        """
        chosen = columns.get("model_id")
        ids = {*models, chosen} if chosen else {*models}
        return self._finish(job_id, state, {**columns, "finished_at": now()}, models=ids)

    def _finish(
        self,
        job_id: str,
        state: str,
        columns: dict[str, Any],
        because: Mapping[str, Any] = _NOTHING,
        models: Collection[str] = (),
    ) -> str:
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row["requested"] == "cancel" and row["state"] == "running":
                state, columns, models = "cancelled", {"finished_at": now()}, ()
            _move(connection, row, state, because, **columns)
            rows = [(model_id, job_id, now()) for model_id in models]
            connection.executemany("INSERT INTO models VALUES (?, ?, ?)", rows)
            model_name = unpack("spec", row["spec"]).get("model_name")
            if model_name is not None and columns.get("model_id") in models:
                add_version(connection, model_name, columns["model_id"])
        if model_name is not None:
            self.names.note()
        return state


def _check_room(connection: sqlite3.Connection, max_queued: int, client: str | None) -> None:
    """Raise ServiceError queue_full if the queue has no room for another job of this client."""
    waiting = connection.execute("SELECT count(*), sum(client = ?) FROM jobs WHERE state = 'queued'", (client,))
    queued, own = waiting.fetchone()
    if queued >= max_queued:
        raise ServiceError("queue_full", f"{queued} jobs are waiting", "Wait for some to end.")
    if (own or 0) >= share_of(max_queued):
        raise ServiceError("queue_full", f"{own} jobs of yours are waiting", "The others are for other clients: wait.")


def _move(
    connection: sqlite3.Connection,
    row: sqlite3.Row,
    state: str,
    because: Mapping[str, Any] = _NOTHING,
    **columns: Any,
) -> None:
    """Set a job's state and columns; add the facts in `because` to the transition. Raises ServiceError not_possible."""
    check_transition(row["state"], state)
    transitions = [*unpack("transitions", row["transitions"]), {"state": state, "at": now(), **because}]
    set_columns(connection, "jobs", row["id"], state=state, transitions=transitions, **columns)


DATASET_STATES = ("ingesting", "ready", "changing", "failed")


class Store(JobRecords, ModelRecords, PredictionRecords):
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
