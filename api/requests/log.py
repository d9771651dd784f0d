"""Middleware that gives every request an id, a line in the log, a count, and, even after a bug, an answer."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamsvm.api.access.auth import TOKEN, address_of
from streamsvm.api.errors import bug, no_memory
from streamsvm.service.processes.logs import request_id
from streamsvm.service.records.database import new_id

# A key of the ASGI scope: the request has no line in the log, and is only counted.
UNLOGGED = "streamsvm.unlogged"
# The status, in the log and the metrics, of a request whose client left before the answer.
GONE = 499
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_log = logging.getLogger("streamsvm.api")

# Arguments: method, path of the route in the OpenAPI document (empty if none matched), status, seconds.
Observer = Callable[[str, str, int, float], None]


class Requests:
    """The outermost middleware: every request and answer passes through it."""

    def __init__(self, app: ASGIApp, observe: Observer, database: Path) -> None:
        self._app = app
        self._observe = observe
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id.set(new_id("req"))
        answer = _LoggedAnswer(send)
        began = time.monotonic()
        try:
            await self._answered(scope, receive, answer)
        finally:
            self._record(scope, answer.status, time.monotonic() - began)

    async def _answered(self, scope: Scope, receive: Receive, answer: "_LoggedAnswer") -> None:
        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            pass
        except Exception as error:
            if answer.status != GONE:
                raise  # a part of the answer was sent: the server closes the connection
            # Exception handlers of the app would run in threads, for which there may be no memory either.
            if (response := no_memory(error)) is None:
                _log.exception("a bug")
                response = await run_in_threadpool(bug, self._database)
            await response(scope, receive, answer)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], getattr(scope.get("route"), "path_format", "")
        self._observe(method, route, status, seconds)
        if UNLOGGED in scope:
            return
        fields = {"method": method, "path": scope["path"], "status": status, "seconds": round(seconds, 6)}
        fields |= {"address": address_of(scope), "token": scope.get(TOKEN)}
        if "job_id" in scope.get("path_params", {}):
            fields["job_id"] = scope["path_params"]["job_id"]
        _log.info("request", extra={"fields": fields})


class _LoggedAnswer:
    """Sends an answer with the headers that every answer has; `status` is GONE until the answer begins."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = GONE

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", request_id.get().encode()), _NOSNIFF]
        await self._send(message)
