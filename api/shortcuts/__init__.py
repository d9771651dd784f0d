"""Answers frequent requests without the framework, which would find route, parameters and scope anew for each.

A shortcut answers plain, valid requests of one route. Every other request, such as one without a token or with a fault
in its body, goes to the route, which says what is wrong.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Protocol

from fastapi import Response
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamsvm.api.access.auth import SCOPES, Access, scope_of_request
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.feed import JobFeed
from streamsvm.service.records.tokens import allows

# A key of the ASGI scope: the request has no line in the log, and is only counted.
UNLOGGED = "streamsvm.unlogged"
_POLL = re.compile(r"/v1/jobs/(?P<job_id>job_[0-9A-Z]{26})")


class Shortcut(Protocol):
    """Answers plain requests of one route.

    route      the route, which answers all other requests
    is_logged  whether each request has a line in the log
    """

    route: APIRoute
    is_logged: bool

    def parameters(self, scope: Scope) -> Mapping[str, str] | None:
        """Return the parameters of the path, or None if this shortcut does not answer such a request."""

    async def answer(self, request: Request, parameters: Mapping[str, str]) -> Response | None:
        """Return the answer; None, or a ServiceError, leaves the request to the route."""


class Shortcuts:
    """Middleware that tries the shortcuts, and passes all other requests on."""

    def __init__(self, app: ASGIApp, shortcuts: Iterable[Shortcut], access: Access) -> None:
        self._app = app
        self._shortcuts = tuple(shortcuts)
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replay = Replay(receive)
        response = await self._response(scope, replay) if scope["type"] == "http" else None
        if response is None:
            replay.rewind()
        await (self._app if response is None else response)(scope, replay, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response | None:
        for shortcut in self._shortcuts:
            if (parameters := shortcut.parameters(scope)) is not None:
                response = await self._answer(shortcut, Request(scope, receive), parameters)
                if response is not None:
                    scope.update({"route": shortcut.route, "path_params": {**parameters}})
                    if not shortcut.is_logged:
                        scope[UNLOGGED] = True
                return response
        return None

    async def _answer(self, shortcut: Shortcut, request: Request, parameters: Mapping[str, str]) -> Response | None:
        try:
            needed = SCOPES[str(shortcut.route.operation_id)]
            if allows(await scope_of_request(request, self._access), needed):
                return await shortcut.answer(request, parameters)
        except (ServiceError, sqlite3.Error):
            pass
        return None


class Replay:
    """Receives a request for a shortcut, and keeps its messages so that the route can receive them again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received: list[Message] = []
        self._is_recording = True

    async def __call__(self) -> Message:
        if self._is_recording:
            self._received.append(await self._receive())
            return self._received[-1]
        return self._received.pop(0) if self._received else await self._receive()

    def rewind(self) -> None:
        """Start again with the first message."""
        self._is_recording = False


class Polls:
    """Answers GET /v1/jobs/{job_id} without parameters; an answer is kept for a tenth of a second."""

    is_logged = False

    def __init__(self, route: APIRoute, feed: JobFeed) -> None:
        self.route = route
        self._feed = feed

    def parameters(self, scope: Scope) -> Mapping[str, str] | None:
        path = _POLL.fullmatch(scope["path"])
        return path.groupdict() if path and scope["method"] == "GET" and not scope["query_string"] else None

    async def answer(self, request: Request, parameters: Mapping[str, str]) -> Response | None:
        text = await self._feed.encoded(parameters["job_id"])
        return None if text is None else Response(text, media_type="application/json")
