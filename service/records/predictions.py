"""The records of predictions of files, which have a queue apart from the queue of jobs."""

import json
import sqlite3
import sys
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import new_id, now
from streamsvm.service.records.table import Records, RequestKey, set_columns, unpacked

# state -> states that may follow. A state that none follows is terminal.
PREDICTION_STATES = {
    "queued": ("running", "cancelled"),
    "running": ("queued", "succeeded", "failed", "cancelled"),
    "succeeded": (),
    "failed": (),
    "cancelled": (),
}


class PredictionRecords(Records):
    """The fields, states and results of predictions."""

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
            queued = connection.execute("SELECT count(*) FROM predictions WHERE state = 'queued'").fetchone()[0]
            if queued >= max_queued:
                raise ServiceError("queue_full", f"{queued} predictions are waiting", "Wait for some to end.")
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

    def prediction(self, prediction_id: str) -> dict[str, Any]:
        """Return the record of a prediction. Raises ServiceError unknown_prediction."""
        return self._one("SELECT * FROM predictions WHERE id = ?", prediction_id, "prediction")

    def predictions(self, state: str | None = None, before: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Return at most `most` records of predictions in `state`, submitted before the id `before`, newest first."""
        return self._all(
            "SELECT * FROM predictions WHERE state = ifnull(?, state) AND (? IS NULL OR id < ?) "
            "ORDER BY id DESC LIMIT ?",
            state, before, before, most,
        )  # fmt: skip

    def first_predictions(self, most: int) -> list[dict[str, Any]]:
        """Return the records of at most `most` queued predictions, the oldest first."""
        return self._all("SELECT * FROM predictions WHERE state = 'queued' ORDER BY rowid LIMIT ?", most)

    def claim_prediction(self, prediction_id: str) -> dict[str, Any] | None:
        """Set a queued prediction to running; return its record, None if it is no longer queued."""
        with self._database.write() as connection:
            claimed = connection.execute(
                "UPDATE predictions SET state = 'running', attempt = attempt + 1, started_at = ifnull(started_at, ?) "
                "WHERE id = ? AND state = 'queued'",
                (now(), prediction_id),
            )
            if not claimed.rowcount:
                return None
            # Read before the commit: if reading fails, no prediction is recorded as running that nobody runs.
            row = _row(connection, prediction_id)
        return unpacked(row)

    def cancelled_predictions(self) -> frozenset[str]:
        """Return the ids of running predictions that are to be cancelled."""
        query = "SELECT id FROM predictions WHERE state = 'running' AND requested = 'cancel'"
        return frozenset(row["id"] for row in self._database.rows(query))

    def cancel_prediction(self, prediction_id: str) -> None:
        """Cancel a prediction; if it runs, the worker ends it. Raises ServiceError unknown_prediction, not_possible."""
        with self._database.write() as connection:
            row = _row(connection, prediction_id)
            if row is None:
                raise ServiceError("unknown_prediction", "there is no such prediction")
            if row["state"] == "running":
                set_columns(connection, "predictions", prediction_id, requested="cancel")
            else:
                _move(connection, row, "cancelled")

    def requeue_prediction(self, prediction_id: str, crashes: int = 0, pieces: int = 0) -> None:
        """Queue a running prediction again, or cancel it on request. `crashes`: since it had `pieces` pieces."""
        with self._database.write() as connection:
            row = _row(connection, prediction_id)
            state = "cancelled" if row["requested"] else "queued"
            _move(connection, row, state, crashes=crashes, crash_pieces=pieces)

    def finish_prediction(
        self,
        prediction_id: str,
        state: str,
        result: dict[str, Any] | None = None,
        failure: dict[str, Any] | None = None,
    ) -> None:
        """Set a running prediction to a terminal state. Raises ServiceError not_possible."""
        with self._database.write() as connection:
            _move(connection, _row(connection, prediction_id), state, result=result, failure=failure)

    def delete_prediction(self, prediction_id: str) -> None:
        """Delete an ended prediction's record, not its file. Raises ServiceError unknown_prediction, not_possible."""
        state = self.prediction(prediction_id)["state"]
        if PREDICTION_STATES[state]:
            raise ServiceError("not_possible", f"a prediction that is {state} cannot be deleted", "Cancel it first.")
        with self._database.write() as connection:
            connection.execute("DELETE FROM predictions WHERE id = ?", (prediction_id,))


def _row(connection: sqlite3.Connection, prediction_id: str) -> Any:
    return connection.execute("SELECT * FROM predictions WHERE id = ?", (prediction_id,)).fetchone()


def _move(connection: sqlite3.Connection, row: sqlite3.Row, state: str, **columns: Any) -> None:
    if state not in PREDICTION_STATES[row["state"]]:
        raise ServiceError("not_possible", f"a prediction that is {row['state']} cannot become {state}")
    ended = None if PREDICTION_STATES[state] else now()
    set_columns(connection, "predictions", row["id"], state=state, finished_at=ended, **columns)
