"""The objects that all routes of an app share."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.models.references import References
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.records.store import Store
from streamsvm.service.room import Room
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Shares

# A prediction may hold some 30 MB, or a process. Bodies that are still arriving take none: they are on disk.
_THREADS = 8
_OPEN = 64
_EVALUATIONS = 1
# Bytes of bodies that are kept in memory until they have arrived: JSON, but for rows to predict.
_BODY_BYTES = 1 << 28


@dataclass(frozen=True)
class SharedWork:
    """Limits that all clients share.

    predictions  threads for predictions whose bodies have arrived
    open         bodies of rows to predict that are still arriving
    evaluations  evaluations at a time
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
    room        the disk for answers
    keeper      keeps the worker running, if this process does
    shared      the limits that all clients share
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
