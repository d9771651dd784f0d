"""Assembles the application: routes, error handlers, middleware and the state they share."""

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import State

from streamsvm.api.access import login
from streamsvm.api.access.auth import Access, require_scope
from streamsvm.api.access.hosts import HostCheck
from streamsvm.api.access.login import Logins
from streamsvm.api.context import AppContext
from streamsvm.api.errors import PROBLEM_RESPONSE, add_error_handlers
from streamsvm.api.pages import compare, dataset, files, reference, routes
from streamsvm.api.requests.log import Requests
from streamsvm.api.requests.parameters import refuse_unknown
from streamsvm.api.routes import datasets, events, inference, info, jobs, metrics, models
from streamsvm.api.routes.metrics import Metrics
from streamsvm.api.shortcuts import Shortcut, Shortcuts
from streamsvm.api.shortcuts.loading import PredictionCode
from streamsvm.api.shortcuts.polls import Polls
from streamsvm.api.shortcuts.predictions import infer_shortcut, predict_shortcut
from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.records.database import Database
from streamsvm.service.records.opening import Soundness, open_store, tell_strays
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.room import Room
from streamsvm.service.settings import Settings


def create_app(settings: Settings, keeper: WorkerKeeper | None = None) -> FastAPI:
    """Make an app on the data directory of `settings`, which is created if it is missing.

    keeper  keeps the worker running; None if another process does
    """
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
    app.state.prediction_code = PredictionCode(settings)
    app.state.soundness = Soundness(settings, store)
    add_error_handlers(app)
    pages = routes, dataset, compare, reference, files
    for module in (datasets, jobs, events, models, inference, info, metrics, login, *pages):
        app.include_router(module.router)
    # The middleware added last is called first.
    app.add_middleware(Shortcuts, shortcuts=_shortcuts(context, app.state), access=app.state.access)
    app.add_middleware(HostCheck, allowed=(settings.host, *settings.allowed_hosts))
    app.add_middleware(Requests, observe=app.state.metrics.observe, database=settings.database)
    return app


def _shortcuts(context: AppContext, state: State) -> list[Shortcut]:
    shared = context.settings, state.metrics, state.prediction_code
    return [
        predict_shortcut(_route(models.router, "predict"), *shared),
        infer_shortcut(_route(inference.router, "modelInfer"), *shared),
        Polls(_route(jobs.router, "getJob"), context.feed),
    ]


def _route(router: APIRouter, operation_id: str) -> APIRoute:
    routes = (route for route in router.routes if isinstance(route, APIRoute))
    return next(route for route in routes if route.operation_id == operation_id)
