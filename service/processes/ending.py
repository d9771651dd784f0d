"""The end of an attempt whose processes have done their part: its lanes are kept, or the job's models published."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.lanes.cross_validation import cross_validation
from streamsvm.service.jobs.lanes.lane_files import abouts_of, keep_outcomes, outcome_of
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.progress import HISTORY, last_passes, progress
from streamsvm.service.jobs.results import job_result
from streamsvm.service.models.registry import lane_outcome, publish_models, settle_models, unpublish_models
from streamsvm.service.processes.attempts import Attempt
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import sync
from streamsvm.storage.models.model_file import Model

_Done = list[Mapping[str, Any]]


class Ending:
    """The end of attempts at the jobs of a data directory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    def outcomes(
        self, active: Attempt, plan: JobPlan, reported: list[dict[str, Any]]
    ) -> tuple[_Done, Callable[[int], Model]]:
        """The files kept of all lanes that are done, and the result of each, by its number."""
        job_dir, run = self._job_dir(active), active.run.directory
        make = partial(lane_outcome, plan, self._settings.datasets / active.record["dataset_id"], run, reported)
        if len(plan.lanes) == 1:
            outcome = make(0)
            return [outcome.about], lambda _: outcome
        keep_outcomes(job_dir, plan, run, make)
        return abouts_of(job_dir), partial(outcome_of, job_dir)

    def publish(
        self, active: Attempt, plan: JobPlan, done: _Done, kept: Callable[[int], Model], state: str
    ) -> tuple[str, str]:
        """Publish the models, and record that the job has ended in this state.

        Returns the state it is in, `cancelled` if someone asked for that, and why it stopped. If this raises, the job
        has not ended and no model stays.
        """
        job_dir, history = self._job_dir(active), self._job_dir(active) / HISTORY
        folds = cross_validation(plan, job_dir, len(done))
        result = {**job_result(plan.lanes, done), **(folds.view if folds else {})}
        last = self._progress(active, plan, last_passes(history))
        sync(history)
        published = publish_models(self._settings, active.record["dataset_id"], plan, len(done), kept, folds)
        ids = {each["C"]: each["model_id"] for each in published}
        chosen = ids.get(result.get("selected_C", max(ids, default=None)))
        with self._unpublished(active.record["id"], published):
            state = self._store.finish_job(
                active.record["id"],
                state,
                models=list(ids.values()),
                result={**result, "models": published},
                progress=last,
                model_id=chosen,
            )
        (unpublish_models if state == "cancelled" else settle_models)(self._settings, published)
        return state, result["stop_reason"]

    def _progress(self, active: Attempt, plan: JobPlan, passes: list[dict[str, Any]]) -> dict[str, Any]:
        return {**progress(active.run.control, active.run.lane, plan.spec, plan.blocks, passes), "eta_seconds": 0}

    @contextmanager
    def _unpublished(self, job_id: str, published: list[dict[str, Any]]) -> Iterator[None]:
        """Models whose job could not be recorded go: unless it has been, and the error came after that."""
        try:
            yield
        except BaseException:
            is_running = self._store.job(job_id)["state"] == "running"
            (unpublish_models if is_running else settle_models)(self._settings, published)
            raise

    def _job_dir(self, active: Attempt) -> Path:
        return self._settings.jobs / active.record["id"]
