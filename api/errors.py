"""Turns errors into RFC 9457 problems. STATUS gives the status of a code; a code it does not have is a 422."""

import errno
import logging
import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from streamsvm.api.answers import Responses, ref
from streamsvm.api.pages.render import missing_page
from streamsvm.api.requests.near_routes import hint_of_route
from streamsvm.reader.options import OPTIONS
from streamsvm.service import gone
from streamsvm.service.errors import ServiceError
from streamsvm.service.hints import HINTS, meant
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.processes.logs import request_id
from streamsvm.service.records.database import DAMAGED
from streamsvm.service.records.opening import RESTORE, check_sound, is_blank
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, StorageError
from streamsvm.storage.options import default_words, plain, without_null

STATUS = {
    "bad_json": 400,
    "bad_request": 400,
    "upload_header_missing": 400,
    "upload_length_mismatch": 400,
    "duplicate_key": 400,
    "token_missing": 401,
    "token_invalid": 401,
    "scope_missing": 403,
    "cross_site": 403,
    "import_forbidden": 403,
    "export_forbidden": 403,
    "unknown_prediction": 404,
    "destination_exists": 409,
    "unknown_dataset": 404,
    "unknown_block": 404,
    "unknown_file": 404,
    "unknown_job": 404,
    "unknown_model": 404,
    "unknown_model_name": 404,
    "unknown_alias": 404,
    "unknown_upload": 404,
    "no_such_route": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "dataset_exists": 409,
    "dataset_in_use": 409,
    "dataset_spread": 409,
    "not_ready": 409,
    "given_up": 409,
    "not_possible": 409,
    "model_in_use": 409,
    "upload_offset_mismatch": 409,
    "upload_taken_over": 409,
    "upload_complete": 410,
    "alias_moved": 412,
    "body_too_large": 413,
    "answer_too_large": 413,
    "line_too_long": 413,
    "too_large_to_read": 413,
    "decompressed_too_large": 413,
    "unknown_format": 415,
    "multipart": 415,
    "partial_upload_type": 415,
    "host_not_allowed": 421,
    "request_under_way": 409,
    "queue_full": 429,
    "too_many_uploads": 429,
    "internal": 500,
    "corrupt_data": 500,
    "dataset_corrupt": 500,
    "ingest_failed": 500,
    "evaluation_failed": 500,
    "store_corrupt": 500,
    "store_missing": 503,
    "unavailable": 503,
    "out_of_space": 507,
}
HEADERS = {
    "token_missing": {"WWW-Authenticate": "Bearer"},
    "token_invalid": {"WWW-Authenticate": 'Bearer error="invalid_token"'},
    "queue_full": {"Retry-After": "30"},
    "too_many_uploads": {"Retry-After": "30"},
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


def add_error_handlers(app: FastAPI) -> None:
    """Register the functions that turn exceptions of all packages into problems."""
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(StorageError, _on_storage_error)
    app.add_exception_handler(ModelFormatError, _on_model_format_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(OSError, _on_disk_error)
    app.add_exception_handler(sqlite3.Error, _on_disk_error)


def problem(code: str, detail: str, hint: str = "", at: dict[str, Any] | None = None) -> JSONResponse:
    """Make the response for an error code; a request must be under way, for its id."""
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


def bug(database: Path) -> JSONResponse:
    """Make the answer to an unexpected error: the store's code if the store is damaged, else `internal`."""
    try:
        check_sound(database)
    except ServiceError as error:
        return problem(error.code, "the records are damaged", error.hint)
    except sqlite3.Error:
        pass  # the store cannot be checked now
    return problem("internal", "something went wrong in the service", "Its log says more.")


def _on_service_error(request: Request, error: Any) -> Response:
    if error.code == "token_missing" and _is_person(request):
        return RedirectResponse(f"/login?{urlencode({'next': request.url.path})}", 303)
    hint = error.hint
    if getattr(request.state, "is_joined", False) and error.code != "bad_json":
        hint = f"curl's -d joins the lines of a file: send it with -T or --data-binary @FILE. Else {hint}"
    return problem(error.code, error.message, hint, error.at)


def _is_person(request: Request) -> bool:
    """Tell whether a browser asks for a page."""
    return "text/html" in request.headers.get("accept", "")


def _on_storage_error(_request: Request, error: Any) -> JSONResponse:
    return problem(error.code, error.message, error.hint)


def _on_model_format_error(_request: Request, error: Any) -> JSONResponse:
    # Training made this model, so it is not damaged: the format cannot hold it, and another one can.
    return problem("not_exportable", error.message, error.hint)


def _on_validation_error(_request: Request, error: Any) -> JSONResponse:
    # The framework's own answer repeats the input, which may be no valid JSON.
    first = error.errors()[0]
    message = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return problem("wrong_type", message, _hint_of_parameter(first))


def _hint_of_parameter(fault: Any) -> str:
    """Say what a parameter of the query may be, by the description of the option or by the values that it takes."""
    if expected := re.findall(r"'([\w.-]+)'", str(fault.get("ctx", {}).get("expected", ""))):
        given = str(fault["input"])
        if expected == [*MODEL_FORMATS] and given in gone.FORMATS:
            return gone.FORMATS[given]
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
