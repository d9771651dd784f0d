"""/v1/jobs/{id}/events: a job, live, as server-sent events."""

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from streamsvm.api.context import Context
from streamsvm.service.jobs.progress.events import Event

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

# A proxy that buffers would hold events back.
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class _EventStream(StreamingResponse):
    """A stream of events that are encoded once for all clients; the framework would encode them for each."""

    media_type = "text/event-stream"


async def _existing_job(context: Context, job_id: str) -> dict[str, Any]:
    # A dependency, because nothing can be refused once the answer streams.
    return await run_in_threadpool(context.store.job, job_id)


@router.get(
    "/{job_id}/events",
    operation_id="watchJob",
    response_class=_EventStream,
    dependencies=[Depends(_existing_job)],
)
async def watch_job(
    context: Context, job_id: str, last_event_id: Annotated[str, Header(max_length=64)] = "0"
) -> _EventStream:
    """Events `state`, `pass`, `progress` and, at the end, `end` with the whole job.

    They begin with the job, or after the event that `Last-Event-ID` names.
    """
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else 0
    return _EventStream(_stream(context.feed.events(job_id, after)), headers=_HEADERS)


async def _stream(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    async for event in events:
        yield _encoded(event)


@lru_cache(1024)
def _encoded(event: Event) -> bytes:
    if event.kind == "ping":
        return KEEPALIVE_COMMENT
    number = None if event.number is None else str(event.number)
    return format_sse_event(data_str=event.data, event=event.kind, id=number)
