"""GET /v1/jobs/{job_id}, as those send it who watch a job: answered before the framework has taken it apart.

What it would find out anew for each of a thousand is known: the route, and for a tenth of a second the answer. Anything
but a plain request that has its answer, such as one without a token or for a job that is unknown, goes the usual way.
"""

import re
import sqlite3

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth import Access, scope_of_request
from api.scopes import SCOPES
from service.errors import ServiceError
from service.jobs.feed import JobFeed
from service.records.tokens import allows

# A key of the ASGI scope: the request is one of very many, and only counted.
UNLOGGED = "streamsvm.unlogged"
_PATH = re.compile(r"/v1/jobs/(job_[0-9A-Z]{26})")


class Polls:
    """Middleware; `route` is the one that answers all others who ask for a job."""

    def __init__(self, app: ASGIApp, route: APIRoute, access: Access, feed: JobFeed) -> None:
        self._app = app
        self._route = route
        self._needed = SCOPES[str(route.operation_id)]
        self._access = access
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _PATH.fullmatch(scope.get("path", ""))
        text = await self._answer(scope, path[1]) if path and _is_plain(scope) else None
        if path is None or text is None:
            await self._app(scope, receive, send)
            return
        scope.update({"route": self._route, "path_params": {"job_id": path[1]}, UNLOGGED: True})
        headers = [(b"content-length", str(len(text)).encode()), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _answer(self, scope: Scope, job_id: str) -> bytes | None:
        """The job as JSON; None if there is anything to object."""
        try:
            if allows(await scope_of_request(Request(scope), self._access), self._needed):
                return await self._feed.encoded(job_id)
        except (ServiceError, sqlite3.Error):
            pass
        return None


def _is_plain(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]
