"""The records of work, which are jobs and predictions of files: each kind has a table, and a queue of its own."""

import json
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.states import REQUESTS, TRANSITIONS, check_transition
from streamsvm.service.records.database import new_id, now
from streamsvm.service.records.models import add_version
from streamsvm.service.records.table import Records, RequestKey, set_columns, unpack, unpacked
from streamsvm.service.shares import share_of

Kind = Literal["job", "prediction"]
_NOTHING: Mapping[str, Any] = {}
PAGE_BYTES = 4 << 20
_SIZE = "length(spec) + length(transitions) + ifnull(length(progress), 0) + ifnull(length(result), 0)"
# Records of those that may run now. A damaged spec has no priority, rather than spoiling the query.
_WAITING: dict[Kind, str] = {
    "job": "SELECT * FROM jobs WHERE state = 'queued' AND NOT (started_at IS NOT NULL AND EXISTS "
    "(SELECT 1 FROM datasets WHERE id = dataset_id AND state = 'ingesting')) "
    "ORDER BY CASE WHEN json_valid(spec) THEN ifnull(json_extract(spec, '$.priority'), 0) ELSE 0 END DESC, rowid",
    "prediction": "SELECT * FROM predictions WHERE state = 'queued' ORDER BY rowid",
}


class WorkRecords(Records):
    """The fields, states and results of jobs and predictions. Each change of state is checked.

    A job's changes of state are listed in its `transitions`. An operation is on a job, or on what `kind` says.
    """

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
            _check_room(connection, "job", max_queued)
            query = "SELECT count(*) FROM jobs WHERE state = 'queued' AND client = ?"
            own = connection.execute(query, (client,)).fetchone()[0]
            if own >= share_of(max_queued):
                hint = "The others are for other clients: wait."
                raise ServiceError("queue_full", f"{own} jobs of yours are waiting", hint)
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

    def add_prediction(
        self,
        model_id: str,
        spec: dict[str, Any],
        max_queued: int = sys.maxsize,
        key: RequestKey | None = None,
        dataset_id: str | None = None,
    ) -> str:
        """Queue a prediction with a model; return the prediction's id.

        dataset_id  id of the dataset whose rows are predicted; None: files are predicted
        Raises ServiceError queue_full, unknown_model, unknown_dataset.
        """
        prediction_id = new_id("prd")
        with self._database.write() as connection:
            _check_room(connection, "prediction", max_queued)
            query = "SELECT 1 FROM datasets WHERE id = ? AND state = 'ready'"
            if dataset_id is not None and connection.execute(query, (dataset_id,)).fetchone() is None:
                raise ServiceError("unknown_dataset", "there is no such dataset to predict any more")
            added = connection.execute(
                "INSERT INTO predictions (id, model_id, spec, state, created_at, dataset_id) "
                "SELECT ?, id, ?, 'queued', ?, ? FROM models WHERE id = ?",
                (prediction_id, json.dumps(spec), now(), dataset_id, model_id),
            )
            if not added.rowcount:
                raise ServiceError("unknown_model", "there is no such model")
            if key is not None:
                key.note(connection, prediction_id)
        return prediction_id

    def job(self, key: str, kind: Kind = "job") -> dict[str, Any]:
        """The record of a job. Raises `unknown_job`, `unknown_prediction`."""
        return self._one(f"SELECT * FROM {kind}s WHERE id = ?", key, kind)

    def jobs(
        self, state: str | None = None, before: str | None = None, most: int = -1, kind: Kind = "job"
    ) -> list[dict[str, Any]]:
        """Records, the newest first: at most `most`, in a state, submitted before the one with the id `before`."""
        return self._all(
            f"SELECT * FROM {kind}s WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
            state, before, before, most,
        )  # fmt: skip

    def job_states(self) -> dict[str, str]:
        """Return job id -> state for all jobs, without reading the rest of their records."""
        return {row["id"]: row["state"] for row in self._database.rows("SELECT id, state FROM jobs")}

    def queued_again(self, kind: Kind = "job") -> list[dict[str, Any]]:
        """Records of what is queued and has run before."""
        return self._all(f"SELECT * FROM {kind}s WHERE state = 'queued' AND started_at IS NOT NULL")

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

    def request(self, key: str, what: str, kind: Kind = "job") -> None:
        """Request `stop` or `cancel`: the worker carries it out on what runs; what is queued is ended at once.

        Raises `unknown_job`, `unknown_prediction`, `not_possible`.
        """
        with self._database.write() as connection:
            row = _row(connection, kind, key)
            if row is None:
                raise ServiceError(f"unknown_{kind}", f"there is no such {kind}")
            # After a request to cancel, the job counts as cancelled, and can no longer be stopped.
            is_over = kind == "job" and row["requested"] == "cancel"
            check_transition("cancelled" if is_over else row["state"], REQUESTS[what], kind)
            if row["state"] == "running":
                set_columns(connection, f"{kind}s", key, requested=what)
            else:
                _move(connection, kind, row, REQUESTS[what])

    def requests(self, kind: Kind = "job") -> dict[str, str]:
        """Return the requests to what runs: the id of each job or prediction, `stop` or `cancel`."""
        query = f"SELECT id, requested FROM {kind}s WHERE state = 'running' AND requested IS NOT NULL"
        return {row["id"]: row["requested"] for row in self._database.rows(query)}

    def delete_work(self, key: str, kind: Kind = "job") -> None:
        """Delete the record of what has ended; models of a job, and the file of a prediction, stay."""
        state = self.job(key, kind)["state"]
        if TRANSITIONS[state]:
            raise ServiceError("not_possible", f"a {kind} that is {state} cannot be deleted", "Cancel it first.")
        with self._database.write() as connection:
            connection.execute(f"DELETE FROM {kind}s WHERE id = ?", (key,))

    def waiting(self, most: int, kind: Kind = "job") -> list[dict[str, Any]]:
        """Records of what is queued and may run now, at most so many: those of the highest priority, oldest first.

        A job that has run before may not run while its dataset is still being read in.
        """
        return self._all(f"{_WAITING[kind]} LIMIT ?", most)

    def claim(self, key: str | None = None, kind: Kind = "job") -> dict[str, Any] | None:
        """Set what is queued, by default the first that waits, to running; returns its record.

        None: it is queued no more, or nothing waits.
        """
        with self._database.write() as connection:
            row = connection.execute(f"{_WAITING[kind]} LIMIT 1").fetchone() if key is None else None
            row = row if key is None else _row(connection, kind, key)
            if row is None or row["state"] != "queued":
                return None
            started = row["started_at"] or now()
            _move(connection, kind, row, "running", attempt=row["attempt"] + 1, started_at=started)
            # Read before it is committed: what is recorded as running has somebody who runs it.
            return unpacked(_row(connection, kind, row["id"]))

    def count_crash(self, key: str, kind: Kind = "job") -> int:
        """Count a crash of what runs; returns the crashes since its last progress."""
        with self._database.write() as connection:
            connection.execute(f"UPDATE {kind}s SET crashes = crashes + 1 WHERE id = ?", (key,))
            return _row(connection, kind, key)["crashes"]

    def requeue(self, key: str, columns: Mapping[str, Any] = _NOTHING, kind: Kind = "job", **because: Any) -> None:
        """Queue what runs again, for another attempt; it is cancelled instead if someone has requested that.

        columns  to set, such as `crashes`; `because` is added to a job's transition
        """
        self._leave(key, "queued", dict(columns), (), kind, because)

    def explain_job(self, job_id: str, **because: Any) -> None:
        """Add the facts in `because` to the last transition of a job."""
        with self._database.write() as connection:
            row = connection.execute("SELECT transitions FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is not None:  # else its record has been deleted
                *before, last = unpack("transitions", row["transitions"]) or [{}]
                set_columns(connection, "jobs", job_id, transitions=[*before, {**last, **because}])

    def finish(self, key: str, state: str, models: Sequence[str] = (), kind: Kind = "job", **columns: Any) -> str:
        """Record the end of a job or prediction, in `state`, and the models that it made.

        models   ids of the models; that of `columns["model_id"]`, the job's own, need not be among them
        columns  any of progress, result, failure, model_id
        The job's own model becomes the next version of the job's `model_name`, if it has one.
        Returns the new state: that of a job is `cancelled` if someone has requested that, whatever the outcome.
        """
        chosen = columns.get("model_id")
        return self._leave(key, state, columns, {*models, chosen} if chosen else {*models}, kind)

    def _leave(
        self,
        key: str,
        state: str,
        columns: dict[str, Any],
        models: Collection[str],
        kind: Kind,
        because: Mapping[str, Any] = _NOTHING,
    ) -> str:
        with self._database.write() as connection:
            row = _row(connection, kind, key)
            # The file of a prediction that has succeeded is there.
            is_asked = row["requested"] == "cancel" and (kind == "job" or state == "queued")
            if is_asked and row["state"] == "running":
                state, columns, models = "cancelled", {}, ()
            _move(connection, kind, row, state, because, **columns)
            rows = [(model_id, key, now()) for model_id in models]
            connection.executemany("INSERT INTO models VALUES (?, ?, ?)", rows)
            model_name = unpack("spec", row["spec"]).get("model_name")
            if model_name is not None and columns.get("model_id") in models:
                add_version(connection, model_name, columns["model_id"])
        if model_name is not None:
            self.names.note()
        return state


def _row(connection: sqlite3.Connection, kind: Kind, key: str) -> Any:
    return connection.execute(f"SELECT * FROM {kind}s WHERE id = ?", (key,)).fetchone()


def _check_room(connection: sqlite3.Connection, kind: Kind, max_queued: int) -> None:
    queued = connection.execute(f"SELECT count(*) FROM {kind}s WHERE state = 'queued'").fetchone()[0]
    if queued >= max_queued:
        raise ServiceError("queue_full", f"{queued} {kind}s are waiting", "Wait for some to end.")


def _move(
    connection: sqlite3.Connection,
    kind: Kind,
    row: sqlite3.Row,
    state: str,
    because: Mapping[str, Any] = _NOTHING,
    **columns: Any,
) -> None:
    """Set a job or prediction to a state, and columns; `because` is added to the transition. Raises `not_possible`."""
    check_transition(row["state"], state, kind)
    if kind == "job":
        columns["transitions"] = [*unpack("transitions", row["transitions"]), {"state": state, "at": now(), **because}]
    if not TRANSITIONS[state]:
        columns["finished_at"] = now()
    set_columns(connection, f"{kind}s", row["id"], state=state, **columns)
