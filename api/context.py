"""What the routes work with, one for each app."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.records.store import Store
from streamsvm.service.room import Room
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Shares

# A prediction may hold some 30 MB. Those whose rows are still arriving have turns of their own: a body may take its
# time, and what is here already is not to wait for it. While one waits for its client others have its turn.
_THREADS = 8
_OPEN = 64
_EVALUATIONS = 1
# Of bodies that are kept in memory until they are whole: JSON and tensors.
_BODY_BYTES = 1 << 28


@dataclass(frozen=True)
class SharedWork:
    """Limits that all clients share: threads for predictions, evaluations at a time, bytes of bodies in memory.

    open  predictions whose rows are still arriving; `arriving` are those of them at work
    """

    whole: Shares = field(default_factory=lambda: Shares(_THREADS))
    open: Shares = field(default_factory=lambda: Shares(_OPEN))
    arriving: Shares = field(default_factory=lambda: Shares(_THREADS))
    evaluations: Shares = field(default_factory=lambda: Shares(_EVALUATIONS))
    body_bytes: Shares = field(default_factory=lambda: Shares(_BODY_BYTES))


@dataclass(frozen=True)
class AppContext:
    """Settings, records, datasets, jobs as they change; what keeps the worker running, if this process does; what
    clients share."""

    settings: Settings
    store: Store
    datasets: Datasets
    feed: JobFeed
    room: Room
    keeper: WorkerKeeper | None = None
    shared: SharedWork = field(default_factory=SharedWork)


# Async, though it awaits nothing: anything else goes through a thread at every request.
async def _context(request: Request) -> AppContext:
    return request.app.state.context


Context = Annotated[AppContext, Depends(_context)]
