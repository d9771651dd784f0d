"""What the routes work with, one for each app."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.datasets import Datasets
from service.feed import JobFeed
from service.settings import Settings
from service.store import Store


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
