"""Pages of work: /queue, /predictions, /predictions/{id}, and /compare?jobs=a,b.

The queue shows running jobs, then waiting jobs in the order of their turns, and what each one waits for.
"""

import json
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import AppContext, Context
from streamsvm.api.pages.render import flat, missing_page, page
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import read_spec
from streamsvm.service.jobs.plan.plan import plan_recorded
from streamsvm.service.jobs.progress.progress import job_view
from streamsvm.service.jobs.progress.states import PREDICTION_STATES
from streamsvm.service.predictions.request import FORMATS, OUTPUTS
from streamsvm.service.predictions.spec import prediction_view
from streamsvm.service.processes.run import log_tail
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.resources import memory_limit

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50  # jobs, or predictions
_FEWEST, _MOST = 2, 5  # jobs side by side
_NAMES = "ABCDE"
# reason of a job that is queued again -> what it waits for
_REASONS = {
    "out_of_space": "room on the disk, which is looked for again every minute",
    "worker_died": "its turn alone: the worker died while it ran with others",
}


@router.get("/queue", operation_id="showQueue")
def show_queue(context: Context, request: Request) -> HTMLResponse:
    """Show the jobs, and the predictions of files, that run or wait."""
    store, settings = context.store, context.settings
    running = sorted(store.jobs("running"), key=lambda record: record["started_at"] or "")
    may_run = store.waiting(_MOST_SHOWN)
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
        predicting=[prediction_view(settings, record) for record in store.jobs("running", kind="prediction")],
        to_predict=[prediction_view(settings, record) for record in store.waiting(_MOST_SHOWN, "prediction")],
        n_to_predict=store.count_by_state("predictions").get("queued", 0),
    )


def _shown(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    """Return a job with its priority, and the bytes of memory that its plan needs; None: it cannot be planned now."""
    memory, priority = None, 0
    with suppress(ServiceError, StorageError):
        priority = read_spec(record["spec"]).priority
        memory = plan_recorded(context.settings, context.store, record).needed_bytes
    return {**job_view(context.settings, record), "priority": priority, "memory_bytes": memory}


def _waiting(context: AppContext, record: dict[str, Any], n_running: int) -> dict[str, Any]:
    """Return a waiting job with `waits_for`, ids of the jobs that it waits for, and `why`, else the reason in words."""
    last = record["transitions"][-1] if record["transitions"] else {}
    jobs, why = last.get("waits_for", []), ""
    if not jobs:
        is_coming = context.store.dataset_state(record["dataset_id"]) == "ingesting" and record["started_at"]
        why = "its dataset, which is being read in" if is_coming else _REASONS.get(last.get("reason", ""), "")
        is_full = n_running >= context.settings.jobs_at_once
        why = why or ("a place: as many jobs run as may run at a time" if is_full else "its turn")
    return {**_shown(context, record), "waits_for": jobs, "why": why}


@router.get("/predictions", operation_id="showPredictions")
def show_predictions(
    context: Context, request: Request, before: Annotated[str | None, Query(pattern="^prd_[0-9A-Z]{26}$")] = None
) -> HTMLResponse:
    """Show predictions of files, those submitted before the id `before`, and a form that submits one."""
    store = context.store
    newest = store.models()[:_MOST_SHOWN]
    records = store.jobs(None, before, _MOST_SHOWN + 1, "prediction")
    shown = [prediction_view(context.settings, record) for record in records[:_MOST_SHOWN]]
    return page(
        request,
        "predictions.html",
        predictions=shown,
        older=shown[-1]["id"] if len(records) > _MOST_SHOWN else None,
        before=before,
        models=[each["name"] for each in store.registered_models()] + [each["id"] for each in newest],
        datasets=[record["name"] for record in store.datasets() if record["state"] == "ready"],
        has_imports=bool(context.settings.import_dir or context.settings.import_sources),
        has_exports=bool(context.settings.export_dir or context.settings.export_destinations),
        formats=FORMATS,
        outputs=OUTPUTS,
    )


@router.get("/predictions/{prediction_id}", operation_id="showPrediction")
def show_prediction(context: Context, request: Request, prediction_id: str) -> HTMLResponse:
    """Show a prediction of files."""
    try:
        prediction = prediction_view(context.settings, context.store.job(prediction_id, "prediction"))
    except ServiceError as error:
        return missing_page(request, error)
    return page(
        request,
        "prediction.html",
        prediction=prediction,
        ended=not PREDICTION_STATES[prediction["state"]],
        log=log_tail(context.settings.predictions / prediction_id / "log"),
    )


@router.get("/compare", operation_id="compareJobs")
def compare_jobs(context: Context, request: Request, jobs: Annotated[str, Query(max_length=1000)] = "") -> HTMLResponse:
    """Show the fields in which jobs differ, their results, and their curves in one picture."""
    ids = list(dict.fromkeys(job for job in jobs.split(",") if job))
    if not _FEWEST <= len(ids) <= _MOST:
        message = f"{len(ids)} jobs cannot be compared: choose {_FEWEST} to {_MOST} of them"
        return page(request, "error.html", 422, error={"message": message}, heading="Compare jobs")
    try:
        shown = [job_view(context.settings, context.store.job(job)) for job in ids]
    except ServiceError as error:
        return missing_page(request, error)
    return page(
        request,
        "compare.html",
        jobs=list(zip(_NAMES, shown, strict=False)),
        fields=_differing([flat(job["spec"]) for job in shown]),
        drawn=[
            {"id": job["id"], "name": name, "certificate": (job["result"] or {}).get("certificate")}
            for name, job in zip(_NAMES, shown, strict=False)
        ],
    )


def _differing(specs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return field -> its value in each spec (None: the spec lacks it), for the fields in which specs differ."""
    names = dict.fromkeys(name for spec in specs for name in spec)
    values = {name: [spec.get(name) for spec in specs] for name in names}
    return {name: each for name, each in values.items() if len({json.dumps(value) for value in each}) > 1}
