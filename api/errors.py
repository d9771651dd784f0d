"""Turns errors into RFC 9457 problems. STATUS has the HTTP status of each code; a code without one gets 422."""

import errno
import logging
import re
import sqlite3
from collections.abc import Iterable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from streamsvm.api.answers import Responses, ref
from streamsvm.api.pages.render import missing_page
from streamsvm.reader.options import OPTIONS
from streamsvm.service import obsolete_names
from streamsvm.service.errors import HINTS, ServiceError, meant
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.loaded import forget_predictors
from streamsvm.service.obsolete_names import gone_route
from streamsvm.service.processes.logs import request_id
from streamsvm.service.records.database import DAMAGED
from streamsvm.service.records.opening import RESTORE, check_sound, is_blank
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, StorageError
from streamsvm.storage.options import default_words, plain, without_null

_MOST_LETTERS = 200  # longest path that is compared with routes
_LEAST_RATIO = 0.6  # least likeness of a mistyped segment of a path and the segment that is suggested
# How curl sends a body by a method; the other methods need no hint.
_SENDERS = {"PUT": "curl -X PUT, or -T FILE,", "POST": "curl --data-binary @FILE, or --json,"}
_CODES = {  # HTTP status -> codes of errors
    400: "bad_json bad_request upload_header_missing upload_length_mismatch duplicate_key",
    401: "token_missing token_invalid token_expired",
    403: "scope_missing cross_site import_forbidden export_forbidden",
    404: "unknown_prediction unknown_dataset unknown_block unknown_file unknown_job unknown_model "
    "unknown_model_name unknown_alias unknown_upload no_such_route",
    405: "method_not_allowed",
    408: "too_slow",
    409: "destination_exists dataset_exists dataset_in_use dataset_spread not_ready given_up not_possible "
    "model_in_use upload_offset_mismatch upload_taken_over request_under_way",
    410: "upload_complete",
    412: "alias_moved",
    413: "body_too_large answer_too_large line_too_long too_large_to_read decompressed_too_large too_many_rows",
    415: "unknown_format multipart partial_upload_type",
    421: "host_not_allowed",
    429: "queue_full too_many_uploads",
    500: "internal corrupt_data dataset_corrupt ingest_failed evaluation_failed store_corrupt",
    503: "store_missing unavailable out_of_memory",
    507: "out_of_space",
}  # fmt: skip
STATUS = {code: status for status, codes in _CODES.items() for code in codes.split()}
HEADERS = {
    "token_missing": {"WWW-Authenticate": "Bearer"},
    **{code: {"WWW-Authenticate": 'Bearer error="invalid_token"'} for code in ("token_invalid", "token_expired")},
    **{code: {"Retry-After": "30"} for code in ("queue_full", "too_many_uploads", "out_of_memory")},
}
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
_ROUTING = {404: "no_such_route", 405: "method_not_allowed"}
_log = logging.getLogger("streamsvm.api")


PROBLEM_RESPONSE: Responses = {
    "default": {
        "description": "A problem (RFC 9457)",
        "content": {"application/problem+json": {"schema": ref("Problem")}},
    }
}


def problem(code: str, detail: str, hint: str = "", at: dict[str, Any] | None = None) -> JSONResponse:
    """Make the response for an error code; it has the id of the current request."""
    status = STATUS.get(code, 422)
    content = {
        "type": f"urn:streamsvm:problem:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint or HINTS.get(code, HINTS["bad_request"]),
        "at": at or {},
        "request_id": request_id.get(),
    }
    if status >= 500:
        _log.error("%s: %s", code, detail)
    return JSONResponse(content, status, HEADERS.get(code), media_type="application/problem+json")


def no_memory(error: Exception) -> JSONResponse | None:
    """Make the response if an error is a lack of memory, also for a thread's stack; return None for other errors."""
    if not isinstance(error, MemoryError) and "can't start new thread" not in str(error):
        return None
    forget_predictors()
    return problem("out_of_memory", "the service may have no more memory now", "STREAMSVM_MAX_API_BYTES is it.")


def bug(database: Path) -> JSONResponse:
    """Make the response to an unexpected error: code store_corrupt if the store is damaged, else internal."""
    try:
        check_sound(database)
    except ServiceError as error:
        return problem(error.code, "the records are damaged", error.hint)
    except sqlite3.Error:
        pass  # the store cannot be checked now
    return problem("internal", "something went wrong in the service", "Its log says more.")


def _on_service_error(request: Request, error: Any) -> Response:
    if error.code in ("token_missing", "token_expired") and _is_person(request):
        return RedirectResponse(f"/login?{urlencode({'next': request.url.path})}", 303)
    hint = error.hint
    if getattr(request.state, "is_joined", False) and error.code != "bad_json":
        hint = f"curl's -d joins the lines of a file: send it with -T or --data-binary @FILE. Else {hint}"
    return problem(error.code, error.message, hint, error.at)


def _is_person(request: Request) -> bool:
    """Whether the request comes from a browser that asks for a page."""
    return "text/html" in request.headers.get("accept", "")


def _on_validation_error(_request: Request, error: Any) -> JSONResponse:
    # The framework's own answer repeats the input, which may be no valid JSON.
    first = error.errors()[0]
    message = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return problem("wrong_type", message, _hint_of_parameter(first))


def _hint_of_parameter(fault: Any) -> str:
    """Say which values a query parameter may have, from its description as an input option or from its choices."""
    if expected := re.findall(r"'([\w.-]+)'", str(fault.get("ctx", {}).get("expected", ""))):
        given = str(fault["input"])
        if expected == [*MODEL_FORMATS] and given in obsolete_names.FORMATS:
            return obsolete_names.FORMATS[given]
        return f"{meant(given, expected)}Give one of these values."
    name = str(fault["loc"][-1])
    known = OPTIONS.get(name) if fault["loc"][0] == "query" else None
    if known is None:
        return "Give yes or no." if fault["type"].startswith("bool") else HINTS["wrong_type"]
    return f"{name}, {plain(without_null(known), 'none')} (default: {default_words(known)})."


def _on_disk_error(request: Request, error: Any) -> JSONResponse:
    number, of_store = getattr(error, "errno", None), getattr(error, "sqlite_errorcode", 0) & 0xFF
    if of_store in DAMAGED or "no such table" in str(error):
        return problem("store_corrupt", "the records are damaged", RESTORE)
    if of_store == sqlite3.SQLITE_CANTOPEN and is_blank(request.app.state.context.settings.database):
        return problem("store_missing", "the records are not there any more", RESTORE)
    if number in NO_ROOM or of_store == sqlite3.SQLITE_FULL:
        return problem("out_of_space", "the disk is full", ROOM_HINT)
    if number in _NO_MORE_FILES or of_store == sqlite3.SQLITE_CANTOPEN:
        return problem("unavailable", "a file cannot be opened now", "Too many may be open: try again in a while.")
    raise error


def _on_http_error(request: Request, error: Any) -> Response:
    if error.status_code == 404 and _is_person(request):
        missing = {"message": f"there is no page {request.url.path}"}
        return missing_page(request, missing)
    code = _ROUTING.get(error.status_code, "bad_request")
    hint = (
        hint_of_route(request.app.state.routes, request.url.path, request.method) if code in _ROUTING.values() else ""
    )
    response = problem(code, str(error.detail), hint or HINTS[code])
    response.headers.update(error.headers or {})
    return response


# exception, of any package -> function that turns it into a problem
HANDLERS: dict[Any, Any] = {
    ServiceError: _on_service_error,
    StorageError: lambda _, error: problem(error.code, error.message, error.hint),
    # Training made this model, so the model is not damaged: this format cannot hold it, and another format can.
    ModelFormatError: lambda _, error: problem("not_exportable", error.message, error.hint),
    RequestValidationError: _on_validation_error,
    HTTPException: _on_http_error,
    OSError: _on_disk_error,
    sqlite3.Error: _on_disk_error,
}


def hint_of_route(routes: Iterable[Any], path: str, method: str) -> str:
    """Write a hint for a path that no route has, or no route with this method; "" if no route is similar."""
    if told := gone_route(path):
        return told
    known = [route for route in routes if isinstance(route, APIRoute) and route.include_in_schema]
    methods = sorted({each for route in known if route.path_regex.match(path) for each in route.methods or ()})
    if methods:
        senders = [each for each in methods if each in _SENDERS] if method in (*_SENDERS, "PATCH") else []
        how = "; ".join(f"{_SENDERS[each]} sends {each}" for each in senders)
        return f"This path takes {', '.join(methods)}{': ' if how else ''}{how}."
    if len(path) > _MOST_LETTERS:
        return ""
    near = max(known, key=lambda route: _nearness(route.path, path), default=None)
    if near is None or _nearness(near.path, path) < _LEAST_RATIO:
        return ""
    shown = near.path.replace(":path}", "}")
    return f"Did you mean {shown}? All routes are at /reference, for people, and /openapi.json."


def _nearness(template: str, path: str) -> float:
    """Return the likeness of the least similar pair of segments, 0 to 1; a parameter equals any segment."""
    wanted, given = template.strip("/").split("/"), path.strip("/").split("/")
    if len(wanted) != len(given):
        return 0
    pairs = [(one, other) for one, other in zip(wanted, given, strict=True) if not one.startswith("{")]
    return min((SequenceMatcher(None, one, other).ratio() for one, other in pairs), default=0)
