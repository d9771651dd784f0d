"""/v1/jobs/{id}/events: a job, live, as server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api.context import Context

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


async def _existing_job(context: Context, job_id: str) -> dict[str, Any]:
    # Before the answer begins: once it streams, nothing can be refused.
    return await run_in_threadpool(context.store.job, job_id)


@router.get(
    "/{job_id}/events",
    operation_id="watchJob",
    response_class=EventSourceResponse,
    dependencies=[Depends(_existing_job)],
)
async def watch_job(
    context: Context, job_id: str, last_event_id: Annotated[str, Header(max_length=64)] = "0"
) -> AsyncIterator[ServerSentEvent]:
    """Events `state`, `pass`, `progress` and, at last, `end` with the whole job. From the job's beginning, or after
    the one the client saw last."""
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else 0
    async for event in context.feed.events(job_id, after):
        number = None if event.number is None else str(event.number)
        yield ServerSentEvent(raw_data=event.data, event=event.kind, id=number)
