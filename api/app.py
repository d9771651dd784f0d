"""Assembles the application: routes, error handlers, middleware and the state they share."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from streamsvm.api.access import login
from streamsvm.api.access.auth import Access, require_scope
from streamsvm.api.answers import ABOUT, DescribedApp
from streamsvm.api.context import AppContext
from streamsvm.api.errors import HANDLERS, PROBLEM_RESPONSE, problem
from streamsvm.api.pages import queue, reference, routes
from streamsvm.api.requests.body import refuse_unknown
from streamsvm.api.requests.log import Requests
from streamsvm.api.routes import datasets, jobs, models, predictions, registry, service
from streamsvm.api.routes.predicting import PredictionCode
from streamsvm.api.routes.service import Metrics
from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.models.references import References
from streamsvm.service.processes.keeper import WorkerKeeper
from streamsvm.service.records.database import Database
from streamsvm.service.records.opening import Soundness, open_store, tell_strays
from streamsvm.service.records.tokens import Tokens
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Room

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_FREQUENT = ("predict", "getJob")


def create_app(settings: Settings, keeper: WorkerKeeper | None = None) -> FastAPI:
    """Make an app on the data directory of `settings`; create that directory if it is missing.

    keeper  keeps the worker running; None: this process has no worker
    """
    store = open_store(settings)
    tell_strays(settings)
    room = Room(settings.data_dir, settings.max_answer_bytes)
    datasets_, references = Datasets(settings, store), References(store)
    context = AppContext(settings, store, datasets_, references, JobFeed(settings, store), room, keeper)
    context.datasets.recover()
    app = DescribedApp(
        **ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(require_scope), Depends(refuse_unknown)],
        responses=PROBLEM_RESPONSE,
        exception_handlers=HANDLERS,
    )
    app.state.context = context
    app.state.access = Access(Tokens(Database(settings.database)), required=not settings.is_loopback)
    app.state.metrics = Metrics(settings, store)
    app.state.prediction_code = PredictionCode()
    app.state.soundness = Soundness(settings, store)
    pages = routes, queue, reference
    modules = datasets, jobs, models, registry, predictions, service, login, *pages
    for module in modules:
        app.include_router(module.router)
    app.state.routes = [route for module in modules for route in module.router.routes]
    # The middleware added last is called first.
    frequent = [route for route in app.state.routes if getattr(route, "operation_id", None) in _FREQUENT]
    app.add_middleware(FrequentRoutes, routes=frequent, handlers=app.exception_handlers)
    app.add_middleware(HostCheck, allowed=(settings.host, *settings.allowed_hosts))
    app.add_middleware(Requests, observe=app.state.metrics.observe, database=settings.database)
    return app


class HostCheck:
    """Middleware that answers 421 unless a request's Host is a loopback name or one of `allowed`, with any port.

    Without it, another site could point its own name at this address (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in (*_LOOPBACK, *allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and host_name(Headers(scope=scope).get("host", "")) not in self._allowed:
            answer = problem("host_not_allowed", "the service has another name", "Set STREAMSVM_ALLOWED_HOSTS.")
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def host_name(host: str) -> str:
    """Return the Host header without the port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


class FrequentRoutes:
    """Middleware that calls the functions of frequent routes, without FastAPI's search for route and parameters.

    The search would take as long as the answer. A request with query parameters still goes to FastAPI, which reads them
    and calls the same function with the context, the request and the path's parameters.

    routes    routes whose functions are coroutines that return a response; their other parameters have defaults
    handlers  exception -> function that makes its response
    """

    def __init__(self, app: ASGIApp, routes: Iterable[APIRoute], handlers: Mapping[Any, Any]) -> None:
        self._app, self._handlers = app, handlers
        self._routes = [(route, route.path_regex.match) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and not scope["query_string"]:
            for route, match in self._routes:
                if (path := match(scope["path"])) and scope["method"] in (route.methods or ()):
                    scope["route"], scope["path_params"] = route, path.groupdict()
                    app = await self._answer(Request(scope, receive), route)
                    break
        await app(scope, receive, send)

    async def _answer(self, request: Request, route: APIRoute) -> ASGIApp:
        try:
            await require_scope(request)
            return await route.endpoint(request.app.state.context, request, **request.path_params)
        except Exception as error:
            return ExceptionMiddleware(_raising(error), self._handlers)


def _raising(error: Exception) -> ASGIApp:
    async def app(*_: object) -> None:
        raise error

    return app
