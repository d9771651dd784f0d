"""The objects that the routes of an app share: stores, queues and limits."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.models.references import References
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Room, Shares

# A thread's prediction may hold some 30 MB, or a process. Arriving bodies need no thread: they go to the disk.
_THREADS = 8
_OPEN = 64
_EVALUATIONS = 1
# Bytes of bodies that are kept in memory until they have arrived: JSON, except rows to predict.
_BODY_BYTES = 1 << 28


@dataclass(frozen=True)
class SharedWork:
    """Limits of work that is done at a time; clients share each limit.

    predictions  number of threads for predictions whose bodies have arrived
    open         number of bodies with rows to predict that are still arriving
    evaluations  number of evaluations
    body_bytes   bytes of bodies in memory
    """

    predictions: Shares = field(default_factory=lambda: Shares(_THREADS))
    open: Shares = field(default_factory=lambda: Shares(_OPEN))
    evaluations: Shares = field(default_factory=lambda: Shares(_EVALUATIONS))
    body_bytes: Shares = field(default_factory=lambda: Shares(_BODY_BYTES))


@dataclass(frozen=True)
class AppContext:
    """The objects that all routes of an app share.

    references  finds models by id, name, version or alias
    feed        publishes the changes of jobs
    room        limits the disk space of rows to predict and answers
    keeper      keeps the worker running; None: this process has no worker
    shared      limits of work that clients share
    """

    settings: Settings
    store: Store
    datasets: Datasets
    references: References
    feed: JobFeed
    room: Room
    keeper: WorkerKeeper | None = None
    shared: SharedWork = field(default_factory=SharedWork)


# Async because FastAPI would call a plain function in a thread at every request.
async def _context(request: Request) -> AppContext:
    return request.app.state.context


Context = Annotated[AppContext, Depends(_context)]
