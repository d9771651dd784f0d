"""/queue: the jobs and predictions that run, those that wait in the order of their turns, and what they wait for."""

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import AppContext, Context
from streamsvm.api.pages.render import page
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import read_spec
from streamsvm.service.jobs.plan.forecast import memory_needed
from streamsvm.service.jobs.plan.recorded import plan_recorded
from streamsvm.service.jobs.progress.views import job_view
from streamsvm.service.predictions.submission import prediction_view
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.resources import memory_limit

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50  # of the jobs, or predictions, that wait
# reason of a job that is queued again -> what it waits for
_REASONS = {
    "out_of_space": "room on the disk, which is looked for again every minute",
    "worker_died": "its turn alone: the worker died while it ran with others",
}


@router.get("/queue", operation_id="showQueue")
def show_queue(context: Context, request: Request) -> HTMLResponse:
    """Show the jobs and predictions of files that run or wait."""
    store, settings = context.store, context.settings
    running = sorted(store.jobs("running"), key=lambda record: record["started_at"] or "")
    may_run = store.waiting_jobs(_MOST_SHOWN)
    states = store.count_by_state("jobs")
    known = {record["id"] for record in may_run}
    others = [record for record in reversed(store.jobs("queued", None, _MOST_SHOWN)) if record["id"] not in known]
    waiting = [_waiting(context, record, len(running)) for record in [*may_run, *others][:_MOST_SHOWN]]
    return page(
        request,
        "queue.html",
        running=[_shown(context, record) for record in running],
        waiting=waiting,
        n_waiting=states.get("queued", 0),
        slots=settings.jobs_at_once,
        memory_bytes=memory_limit(),
        predicting=[prediction_view(settings, record) for record in store.predictions("running")],
        to_predict=[prediction_view(settings, record) for record in store.first_predictions(_MOST_SHOWN)],
        n_to_predict=store.count_by_state("predictions").get("queued", 0),
    )


def _shown(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    """A job with its priority, and the memory that it needs by its plan; None: there is no plan."""
    memory, priority = None, 0
    with suppress(ServiceError, StorageError):
        priority = read_spec(record["spec"]).priority
        memory = memory_needed(plan_recorded(context.settings, context.store, record))
    return {**job_view(context.settings, record), "priority": priority, "memory_bytes": memory}


def _waiting(context: AppContext, record: dict[str, Any], n_running: int) -> dict[str, Any]:
    """A job that waits: `waits_for` are jobs by their ids, `why` is a sentence."""
    last = record["transitions"][-1] if record["transitions"] else {}
    jobs, why = last.get("waits_for", []), ""
    if not jobs:
        is_coming = context.store.dataset_state(record["dataset_id"]) == "ingesting" and record["started_at"]
        why = "its dataset, which is being read in" if is_coming else _REASONS.get(last.get("reason", ""), "")
        is_full = n_running >= context.settings.jobs_at_once
        why = why or ("a place: as many jobs run as may run at a time" if is_full else "its turn")
    return {**_shown(context, record), "waits_for": jobs, "why": why}
