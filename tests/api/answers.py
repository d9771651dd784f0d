"""Holds real answers against the models that the OpenAPI document has for them.

Every answer that a test gets is looked at. No field may be missing, and none may be there that the document does not
tell: bodies and document cannot drift apart.
"""

from functools import cache
from typing import Any

import httpx
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from streamsvm.api.answers import Responses, type_of
from streamsvm.api.routes import datasets, jobs, models, predictions, registry, service
from streamsvm.service.obsolete_names import FIELDS as GONE

ROUTES = [
    route
    for module in (datasets, jobs, models, registry, predictions, service)
    for route in module.router.routes
    if isinstance(route, APIRoute) and route.include_in_schema
]
JSON, LINES, PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"


def route_of(method: str, path: str) -> APIRoute | None:
    """The route of the document that such a request reaches."""
    return next((each for each in ROUTES if method in each.methods and each.path_regex.fullmatch(path)), None)


def checked(answer: httpx.Response) -> httpx.Response:
    """The answer, once it was held against the document."""
    request = answer.request
    check_answer(
        request.method, request.url.path, answer.status_code, answer.headers.get("content-type", ""), answer.content
    )
    return answer


def check_answer(method: str, path: str, status: int, media_type: str, body: bytes) -> None:
    """Hold an answer against the document, if it is an answer of JSON to a route of the document."""
    route, kind = route_of(method, path), media_type.partition(";")[0]
    if method == "HEAD":
        assert not body
    elif kind == PROBLEM:
        strictly(type_of("Problem"), body)
    elif route is not None and kind == LINES:
        for line in body.splitlines():
            strictly(type_of("ClassifiedRow | EstimatedRow"), line)
    elif route is not None and kind == JSON:
        responses: Responses = route.responses
        assert "model" in responses.get(status, {}), f"{route.operation_id} has no model of the answer {status}"
        strictly(responses[status]["model"], body)


def strictly(model: Any, body: bytes) -> Any:
    """Read JSON as this model: without a further field, and without a conversion of types.

    The fields of a job that only an earlier version had are not in the document: its jobs are shown as it stored them.
    """
    try:
        return _reader(model).validate_json(body, strict=True, extra="forbid")
    except ValidationError as error:
        if not all(each["type"] == "extra_forbidden" and _is_gone(each["loc"]) for each in error.errors()):
            raise
        return _reader(model).validate_json(body, strict=True)


def _is_gone(place: tuple[int | str, ...]) -> bool:
    return place[-2] == "spec" and place[-1] in GONE


@cache
def _reader(model: Any) -> TypeAdapter:
    return TypeAdapter(model)
