"""/v1/jobs: submit, look, stop, resume, forget; and /v1/jobs/{id}/events: a job, live, as server-sent events."""

import sys
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from streamsvm.api.answers import Responses, answers, body_of, stream_of, type_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import JsonObject, OptionalJsonObject
from streamsvm.api.requests.log import UNLOGGED
from streamsvm.api.requests.repeated import REPLAYED, Once
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.service.jobs.lanes.continuing import CHANGEABLE, continued_spec
from streamsvm.service.jobs.lanes.warm_start import check_warm_start
from streamsvm.service.jobs.plan.forecast import estimate
from streamsvm.service.jobs.plan.plan import plan_following, plan_job
from streamsvm.service.jobs.progress.progress import history, history_csv, job_view
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.processes.launch import check_machines
from streamsvm.service.records.table import RequestKey
from streamsvm.service.records.unrecorded import remove, unrecording
from streamsvm.storage.machine.resources import machine_memory

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_JOB_BODY = body_of("JobSpec")
# The fields have no defaults here: a field that a request to resume leaves out stays as in the old job.
_CHANGES = {
    name: {key: said for key, said in JobSpec.model_json_schema()["properties"][name].items() if key != "default"}
    for name in CHANGEABLE
}
_CHANGES_BODY = {
    "requestBody": {
        "required": False,
        "content": {
            "application/json": {"schema": {"type": "object", "properties": _CHANGES, "additionalProperties": False}}
        },
    }
}
_ACCEPTED, _AS_IT_IS = answers("Job", 202, "The job"), answers("Job")
_MADE = answers("Job", 202, "The job", {"Location": "path of the job", **REPLAYED})
_HISTORY: Responses = {200: {"model": type_of("History"), "content": {"text/csv": {"schema": {"type": "string"}}}}}
_EVENTS: Responses = {
    200: {
        "description": "Server-sent events, each with an object as its data",
        "content": stream_of("text/event-stream", "Transition", "Pass", "PhaseAndProgress", "Job"),
    }
}
_MOST_WAIT_SECONDS = 60
_CANCEL_SECONDS = 2  # the worker takes less, so that the answer nearly always shows a cancelled job
# A proxy that buffers would hold events back. The connection is closed after them: it has small buffers.
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Connection": "close"}


@router.post("", status_code=202, operation_id="submitJob", openapi_extra=_JOB_BODY, responses=_MADE)
def submit_job(context: Context, fields: JsonObject, response: Response, once: Once) -> dict[str, Any]:
    """Queue a job. A job that cannot run is refused now."""
    return once.answer(response, fields, partial(_submit, context, fields, once.client))


def _submit(context: AppContext, fields: dict[str, Any], client: str, key: RequestKey | None) -> str:
    spec = parse_spec(fields)
    record = context.store.dataset(spec.dataset)
    if record["state"] == "ingesting":
        plan_following(spec, context.settings.max_features)
    else:
        # The worker, which may have other limits of memory, plans the job again.
        plan = plan_job(spec, context.datasets.manifest(spec.dataset)[1], memory_bytes=machine_memory())
        check_warm_start(context.store, context.settings, plan, record["id"])
        check_machines(plan, context.settings)
        spec = plan.spec
    most = context.settings.max_queued_jobs
    return context.store.add_job(record["id"], spec.model_dump(), most, key=key, client=client)


@router.post("/estimate", operation_id="estimateJob", openapi_extra=_JOB_BODY, responses=answers("Estimate"))
def estimate_job(context: Context, fields: JsonObject) -> dict[str, Any]:
    """Estimate memory, disk and seconds a pass of a job, without running it."""
    spec = parse_spec(fields)
    return estimate(plan_job(spec, context.datasets.manifest(spec.dataset)[1], memory_bytes=machine_memory()))


@router.get("", operation_id="listJobs", responses=answers("Jobs"))
def list_jobs(
    context: Context,
    state: Literal[tuple(TRANSITIONS)] | None = None,  # type: ignore[valid-type]
    page_token: Annotated[str | None, Query(pattern="^job_[0-9A-Z]{26}$")] = None,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """Jobs, the newest first, and the `next_page_token` of older ones. Large jobs make pages shorter than page_size."""
    records, has_more = context.store.page_of_jobs(state, page_token, page_size)
    jobs = [job_view(context.settings, record) for record in records]
    return {"jobs": jobs, "next_page_token": jobs[-1]["id"] if jobs and has_more else None}


@router.get("/{job_id}", operation_id="getJob", responses=_AS_IT_IS)
async def get_job(
    context: Context,
    request: Request,
    job_id: str,
    wait_seconds: Annotated[float, Query(ge=0, le=_MOST_WAIT_SECONDS)] = 0,
    after: Annotated[int, Query(ge=0, lt=1 << 63)] = 0,
) -> Response:
    """A job, with live progress. `wait_seconds` delays the answer until the job's `seq` exceeds `after`."""
    feed = context.feed
    text = await (feed.wait(job_id, after, wait_seconds) if wait_seconds else feed.text(job_id))
    if not request.scope["query_string"]:  # a poll: there are many
        request.scope[UNLOGGED] = True
    return Response(text, media_type="application/json")


@router.post("/{job_id}/stop", status_code=202, operation_id="stopJob", responses=_ACCEPTED)
async def stop_job(context: Context, job_id: str) -> Response:
    """End a running job after its current pass, and keep the model so far."""
    await run_in_threadpool(context.store.request, job_id, "stop")
    return Response(await context.feed.text(job_id), 202, media_type="application/json")


@router.post("/{job_id}/cancel", status_code=202, operation_id="cancelJob", responses=_ACCEPTED)
async def cancel_job(context: Context, job_id: str) -> Response:
    """End a job at once, and throw away what it has trained."""
    await run_in_threadpool(context.store.request, job_id, "cancel")
    text = await context.feed.wait(job_id, sys.maxsize, _CANCEL_SECONDS)
    return Response(text, 202, media_type="application/json")


@router.post(
    "/{job_id}/resume",
    status_code=202,
    operation_id="resumeJob",
    openapi_extra=_CHANGES_BODY,
    responses=_MADE,
)
def resume_job(
    context: Context, job_id: str, changes: OptionalJsonObject, response: Response, once: Once
) -> dict[str, Any]:
    """Queue a new job that continues one that has ended, to later limits. The old job does not change."""
    return once.answer(response, changes, partial(_resume, context, job_id, changes, once.client))


def _resume(context: AppContext, job_id: str, changes: dict[str, Any], client: str, key: RequestKey | None) -> str:
    record = context.store.job(job_id)
    spec = continued_spec(context.settings.jobs, record, changes)
    most = context.settings.max_queued_jobs
    return context.store.add_job(record["dataset_id"], spec.model_dump(), most, job_id, key, client)


@router.delete("/{job_id}", status_code=204, operation_id="deleteJob")
def delete_job(context: Context, job_id: str) -> Response:
    """Delete a job that has ended. Its model stays."""
    directory = context.settings.jobs / context.store.job(job_id)["id"]
    with unrecording(directory):
        context.store.delete_work(job_id)
    remove(directory)
    return Response(status_code=204)


@router.get("/{job_id}/history", operation_id="getJobHistory", response_model=None, responses=_HISTORY)
def get_job_history(
    context: Context, job_id: str, format: Literal["json", "csv"] = "json"
) -> dict[str, Any] | Response:
    """The figures of each pass."""
    passes = history(context.settings, context.store.job(job_id)["id"])
    return {"passes": passes} if format == "json" else Response(history_csv(passes), media_type="text/csv")


class _EventStream(StreamingResponse):
    """A stream of events that are already encoded, once for all clients; FastAPI would encode them for each client."""

    media_type = "text/event-stream"


async def _existing_job(context: Context, job_id: str) -> None:
    # A dependency, because nothing can be refused once the answer streams.
    await context.feed.text(job_id)


@router.get(
    "/{job_id}/events",
    operation_id="watchJob",
    response_class=_EventStream,
    responses=_EVENTS,
    dependencies=[Depends(_existing_job)],
)
async def watch_job(
    context: Context, job_id: str, last_event_id: Annotated[str, Header(max_length=64)] = "0"
) -> _EventStream:
    """Events `state`, `pass`, `progress` and, at the end, `end` with the whole job.

    They begin with the job, or after the event that `Last-Event-ID` names.
    """
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else 0
    return _EventStream(context.feed.events(job_id, after), headers=_HEADERS)
