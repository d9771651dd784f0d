"""The shortcut of GET /v1/jobs/{job_id} without parameters, whose answer is kept for a tenth of a second."""

import re
from collections.abc import Mapping

from fastapi import Response
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Scope

from streamsvm.service.jobs.progress.feed import JobFeed

_PATH = re.compile(r"/v1/jobs/(?P<job_id>job_[0-9A-Z]{26})")


class Polls:
    """Answers polls of a job."""

    is_logged = False

    def __init__(self, route: APIRoute, feed: JobFeed) -> None:
        self.route = route
        self._feed = feed

    def parameters(self, scope: Scope) -> Mapping[str, str] | None:
        path = _PATH.fullmatch(scope["path"])
        return path.groupdict() if path and scope["method"] == "GET" and not scope["query_string"] else None

    async def answer(self, request: Request, parameters: Mapping[str, str]) -> Response | None:
        text = await self._feed.encoded(parameters["job_id"])
        return None if text is None else Response(text, media_type="application/json")
