"""The records of jobs."""

import json
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.states import REQUESTS, TRANSITIONS, check_transition
from streamsvm.service.records.keys import KeyRecords, RequestKey
from streamsvm.service.records.models import add_version
from streamsvm.service.records.stamps import new_id, now
from streamsvm.service.records.table import JSON_COLUMNS, unpack, unpacked
from streamsvm.service.records.transitions import NOTHING, explain, move
from streamsvm.service.shares import share_of

PAGE_BYTES = 4 << 20
_SIZE = "length(spec) + length(transitions) + ifnull(length(progress), 0) + ifnull(length(result), 0)"
# A damaged spec has no priority, rather than spoiling the query.
_WAITING = (
    "SELECT * FROM jobs WHERE state = 'queued' AND NOT (started_at IS NOT NULL AND EXISTS "
    "(SELECT 1 FROM datasets WHERE id = dataset_id AND state = 'ingesting')) "
    "ORDER BY CASE WHEN json_valid(spec) THEN ifnull(json_extract(spec, '$.priority'), 0) ELSE 0 END DESC, rowid"
)


class JobRecords(KeyRecords):
    """The jobs' fields, states and results. Each change of state is checked, and listed in the job's `transitions`."""

    def add_job(
        self,
        dataset_id: str,
        spec: dict[str, Any],
        max_queued: int = sys.maxsize,
        continues: str | None = None,
        key: RequestKey | None = None,
        client: str | None = None,
    ) -> str:
        """Queue a job on a dataset that is ready or being read in; returns its id.

        max_queued  jobs in the queue; a client may have its share of them
        continues   the id of the job that it resumes
        key         of the request that asks for the job
        Raises `queue_full`, `unknown_dataset`.
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
        """The record of a job. Raises `unknown_job`."""
        return self._one("SELECT * FROM jobs WHERE id = ?", job_id, "job")

    def jobs(self, state: str | None = None, before: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Records of jobs, the newest first: at most `most`, in a state, submitted before the job `before`."""
        return self._all(
            "SELECT * FROM jobs WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
            state, before, before, most,
        )  # fmt: skip

    def job_states(self) -> dict[str, str]:
        """The state of each job by id, without the rest of the records, which may be many."""
        return {row["id"]: row["state"] for row in self._database.rows("SELECT id, state FROM jobs")}

    def jobs_queued_again(self) -> list[dict[str, Any]]:
        """Records of queued jobs that have run before."""
        return self._all("SELECT * FROM jobs WHERE state = 'queued' AND started_at IS NOT NULL")

    def page_of_jobs(
        self, state: str | None, before: str | None, most: int, most_bytes: int = PAGE_BYTES
    ) -> tuple[list[dict[str, Any]], bool]:
        """The first of `jobs`, at most `most` and about `most_bytes`, but at least one; and whether there are more."""
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
        """Request `stop` or `cancel`: the worker carries it out on a running job; a queued one is ended at once."""
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is None:
                raise ServiceError("unknown_job", "there is no such job")
            # After a request to cancel, the job counts as cancelled, and can no longer be stopped.
            check_transition("cancelled" if row["requested"] == "cancel" else row["state"], REQUESTS[what])
            if row["state"] == "running":
                connection.execute("UPDATE jobs SET requested = ? WHERE id = ?", (what, job_id))
            else:
                move(connection, row, REQUESTS[what])
                connection.execute("UPDATE jobs SET finished_at = ? WHERE id = ?", (now(), job_id))

    def requests(self) -> dict[str, str]:
        """Return the requests to running jobs: the id of each such job, `stop` or `cancel`."""
        rows = self._database.rows("SELECT id, requested FROM jobs WHERE state = 'running' AND requested IS NOT NULL")
        return {row["id"]: row["requested"] for row in rows}

    def delete_job(self, job_id: str) -> None:
        """Delete the record of a job that has ended; its models stay."""
        state = self.job(job_id)["state"]
        if TRANSITIONS[state]:
            raise ServiceError("not_possible", f"a job that is {state} cannot be deleted", "Cancel it first.")
        with self._database.write() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def waiting_jobs(self, most: int) -> list[dict[str, Any]]:
        """Records of the queued jobs that may run now, at most so many: those of the highest priority, oldest first.

        A job that has run before and whose dataset is still being read in may not.
        """
        return self._all(f"{_WAITING} LIMIT ?", most)

    def claim_job(self, job_id: str | None = None) -> dict[str, Any] | None:
        """Set a queued job, by default the first of those that wait, to running; returns its record.

        None: it is queued no more, or no job waits.
        """
        with self._database.write() as connection:
            if job_id is None:
                row = connection.execute(f"{_WAITING} LIMIT 1").fetchone()
            else:
                query = "SELECT * FROM jobs WHERE id = ? AND state = 'queued'"
                row = connection.execute(query, (job_id,)).fetchone()
            if row is None:
                return None
            started = row["started_at"] or now()
            connection.execute(
                "UPDATE jobs SET attempt = attempt + 1, started_at = ? WHERE id = ?", (started, row["id"])
            )
            move(connection, row, "running")
            # Read before it is committed: a job that is recorded as running has somebody who runs it.
            claimed = connection.execute("SELECT * FROM jobs WHERE id = ?", (row["id"],)).fetchone()
        return unpacked(claimed)

    def count_crash(self, job_id: str) -> int:
        """Count a crash of a running job; returns the crashes since its last progress."""
        with self._database.write() as connection:
            connection.execute("UPDATE jobs SET crashes = crashes + 1 WHERE id = ?", (job_id,))
            return connection.execute("SELECT crashes FROM jobs WHERE id = ?", (job_id,)).fetchone()[0]

    def requeue_job(self, job_id: str, crashes: Mapping[str, int] = NOTHING, **because: Any) -> None:
        """Queue a running job again, for another attempt; `because` is added to the transition.

        crashes  columns to set: `crashes`, `crash_checkpoint`
        """
        self._finish(job_id, "queued", dict(crashes), because)

    def explain_job(self, job_id: str, **because: Any) -> None:
        """Add facts to the last transition of a job."""
        with self._database.write() as connection:
            explain(connection, job_id, because)

    def hand_back_job(self, job_id: str) -> None:
        """Queue a running job whose worker has to end; the attempt is not counted."""
        self._finish(job_id, "queued", {"attempt": self.job(job_id)["attempt"] - 1})

    def finish_job(self, job_id: str, state: str, models: Sequence[str] = (), **columns: Any) -> str:
        """End a job, and record the models with the ids `models` and `model_id`.

        columns  any of progress, result, failure, model_id
        The job's own model becomes the next version of the job's `model_name`, if it has one.
        Returns the new state: `cancelled` if someone has requested that, whatever the outcome.
        """
        chosen = columns.get("model_id")
        ids = {*models, chosen} if chosen else {*models}
        return self._finish(job_id, state, {**columns, "finished_at": now()}, models=ids)

    def _finish(
        self,
        job_id: str,
        state: str,
        columns: dict[str, Any],
        because: Mapping[str, Any] = NOTHING,
        models: Collection[str] = (),
    ) -> str:
        with self._database.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row["requested"] == "cancel" and row["state"] == "running":
                state, columns, models = "cancelled", {"finished_at": now()}, ()
            move(connection, row, state, because)
            for name, value in columns.items():
                packed = json.dumps(value) if name in JSON_COLUMNS else value
                connection.execute(f"UPDATE jobs SET {name} = ? WHERE id = ?", (packed, job_id))
            rows = [(model_id, job_id, now()) for model_id in models]
            connection.executemany("INSERT INTO models VALUES (?, ?, ?)", rows)
            model_name = unpack("spec", row["spec"]).get("model_name")
            if model_name is not None and columns.get("model_id") in models:
                add_version(connection, model_name, columns["model_id"])
        if model_name is not None:
            self.names.note()
        return state


def _check_room(connection: sqlite3.Connection, max_queued: int, client: str | None) -> None:
    """Check that the queue has room for a job of this client. Raises `queue_full`."""
    waiting = connection.execute("SELECT count(*), sum(client = ?) FROM jobs WHERE state = 'queued'", (client,))
    queued, own = waiting.fetchone()
    if queued >= max_queued:
        raise ServiceError("queue_full", f"{queued} jobs are waiting", "Wait for some to end.")
    if (own or 0) >= share_of(max_queued):
        raise ServiceError("queue_full", f"{own} jobs of yours are waiting", "The others are for other clients: wait.")
