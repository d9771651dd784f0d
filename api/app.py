"""The application: routes, error handlers, and what they share."""

from fastapi import FastAPI

from api import datasets, events, jobs, models
from api.context import AppContext
from api.errors import add_error_handlers
from service.datasets import Datasets
from service.feed import JobFeed
from service.settings import Settings
from service.store import Store


def create_app(settings: Settings) -> FastAPI:
    """An app on the data directory of `settings`, which is created if need be."""
    settings.create_directories()
    store = Store(settings.data_dir / "streamsvm.sqlite")
    context = AppContext(settings, store, Datasets(settings, store), JobFeed(settings, store))
    context.datasets.recover()
    app = FastAPI(title="StreamSVM", version="1", docs_url=None, redoc_url=None)
    app.state.context = context
    add_error_handlers(app)
    for module in (datasets, jobs, events, models):
        app.include_router(module.router)
    return app
