"""The application: routes, error handlers, and what they share."""

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from api import datasets, events, inference, info, jobs, login, metrics, models
from api.auth import Access, require_scope
from api.context import AppContext
from api.errors import PROBLEM_RESPONSE, add_error_handlers
from api.hosts import HostCheck
from api.logins import Logins
from api.metrics import Metrics
from api.pages import compare, dataset, files, reference, routes
from api.parameters import refuse_unknown
from api.requests import Requests
from api.shortcuts import Shortcut, Shortcuts
from api.shortcuts.polls import Polls
from api.shortcuts.predictions import infer_shortcut, predict_shortcut
from service.datasets.registry import Datasets
from service.jobs.feed import JobFeed
from service.processes.keeper import WorkerKeeper
from service.records.database import Database
from service.records.opening import open_store, tell_strays
from service.records.soundness import Soundness
from service.records.tokens import Tokens
from service.room import Room
from service.settings import Settings


def create_app(settings: Settings, keeper: WorkerKeeper | None = None) -> FastAPI:
    """An app on the data directory of `settings`, which is created if need be; keeper: that of its worker."""
    store = open_store(settings)
    tell_strays(settings)
    room = Room(settings.data_dir, settings.max_answer_bytes)
    context = AppContext(settings, store, Datasets(settings, store), JobFeed(settings, store), room, keeper)
    context.datasets.recover()
    app = FastAPI(
        title="StreamSVM",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(require_scope), Depends(refuse_unknown)],
        responses=PROBLEM_RESPONSE,
    )
    app.state.context = context
    app.state.access = Access(Tokens(Database(settings.database)), required=not settings.is_loopback)
    app.state.logins = Logins()
    app.state.metrics = Metrics(settings, store)
    app.state.soundness = Soundness(settings, store)
    add_error_handlers(app)
    pages = routes, dataset, compare, reference, files
    for module in (datasets, jobs, events, models, inference, info, metrics, login, *pages):
        app.include_router(module.router)
    # The last one added is the outermost.
    app.add_middleware(Shortcuts, shortcuts=_shortcuts(context, app.state.metrics), access=app.state.access)
    app.add_middleware(HostCheck, allowed=(settings.host, *settings.allowed_hosts))
    app.add_middleware(Requests, observe=app.state.metrics.observe)
    return app


def _shortcuts(context: AppContext, metrics: Metrics) -> list[Shortcut]:
    return [
        predict_shortcut(_route(models.router, "predict"), context, metrics),
        infer_shortcut(_route(inference.router, "modelInfer"), context, metrics),
        Polls(_route(jobs.router, "getJob"), context.feed),
    ]


def _route(router: APIRouter, operation_id: str) -> APIRoute:
    routes = (route for route in router.routes if isinstance(route, APIRoute))
    return next(route for route in routes if route.operation_id == operation_id)
