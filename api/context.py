"""What the routes work with, one for each app."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.datasets.registry import Datasets
from service.jobs.feed import JobFeed
from service.records.store import Store
from service.settings import Settings


@dataclass(frozen=True)
class AppContext:
    """Settings, records, datasets, jobs as they change."""

    settings: Settings
    store: Store
    datasets: Datasets
    feed: JobFeed


# Async, though it awaits nothing: anything else goes through a thread at every request.
async def _context(request: Request) -> AppContext:
    return request.app.state.context


Context = Annotated[AppContext, Depends(_context)]
