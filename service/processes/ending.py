"""The end of a job whose lanes are done: its models are published, and its result recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.service.jobs.outcome.outcome import Outcome
from streamsvm.service.jobs.progress.progress import HISTORY, last_passes, progress
from streamsvm.service.models.registry import publish_models, settle_models, unpublish_models
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import sync


class Ending:
    """Ends the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    def publish(self, record: dict[str, Any], run: Run, outcome: Outcome, state: str) -> tuple[str, str]:
        """Publish the models, and record that the job has ended in this state; `run` is its last one.

        Returns the state it is in, `cancelled` if someone asked for that, and why it stopped. If this raises, the job
        has not ended and no model stays.
        """
        history, result = self._settings.jobs / record["id"] / HISTORY, outcome.result
        last = progress(run.control, run.lane, outcome.plan.spec, outcome.plan.blocks, last_passes(history))
        sync(history)
        published = publish_models(self._settings, record["dataset_id"], outcome)
        ids = {each["C"]: each["model_id"] for each in published}
        chosen = ids.get(result.get("selected_C", max(ids, default=None)))
        with self._unpublished(record["id"], published):
            state = self._store.finish_job(
                record["id"],
                state,
                models=list(ids.values()),
                result={**result, "models": published},
                progress={**last, "eta_seconds": 0},
                model_id=chosen,
            )
        (unpublish_models if state == "cancelled" else settle_models)(self._settings, published)
        return state, result["stop_reason"]

    @contextmanager
    def _unpublished(self, job_id: str, published: list[dict[str, Any]]) -> Iterator[None]:
        """Remove published models if the block raises before the job's end is on record."""
        try:
            yield
        except BaseException:
            is_running = self._store.job(job_id)["state"] == "running"
            (unpublish_models if is_running else settle_models)(self._settings, published)
            raise
