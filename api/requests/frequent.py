"""Middleware that calls the functions of frequent routes directly, without FastAPI's search for route and parameters.

The search would take as long as the answer. A request with query parameters still goes to FastAPI, which reads the
parameters and calls the same function.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi.routing import APIRoute
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from streamsvm.api.access.auth import require_scope


class FrequentRoutes:
    """Middleware that calls a route's function with the context, the request and the path's parameters.

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
