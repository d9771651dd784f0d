"""What the routes work with, one for each app."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.datasets.registry import Datasets
from service.jobs.feed import JobFeed
from service.processes.keeper import WorkerKeeper
from service.records.store import Store
from service.settings import Settings


@dataclass(frozen=True)
class AppContext:
    """Settings, records, datasets, jobs as they change; what keeps the worker running, if this process does."""

    settings: Settings
    store: Store
    datasets: Datasets
    feed: JobFeed
    keeper: WorkerKeeper | None = None


# Async, though it awaits nothing: anything else goes through a thread at every request.
async def _context(request: Request) -> AppContext:
    return request.app.state.context


Context = Annotated[AppContext, Depends(_context)]
