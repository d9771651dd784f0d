"""Predicts the rows of a request's body, and makes the response.

A few rows are predicted in the event loop, other short text in a thread. A body that is long, compressed or in a stored
format may take much more memory than its size, so a child process reads it.
"""

from dataclasses import replace
from functools import partial
from io import BytesIO
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.api.access.auth import client_of
from streamsvm.api.context import AppContext
from streamsvm.api.requests.body import head_of, stream, too_large
from streamsvm.api.requests.deadlines import Hurry
from streamsvm.api.requests.leaving import in_thread, turn
from streamsvm.api.routes.rows import FORMAT_OF_OBJECTS, JSON, STORED, TYPES, format_of, predicted_rows
from streamsvm.reader.ingest.decompress import is_compressed
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import stored_format
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.apart import predict_apart
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.models.predicting.answers import ANSWERS, Predicted, first_names
from streamsvm.service.models.predicting.predictor import DEFAULTS, Predictor
from streamsvm.service.records.models import Reference

# Content-Types that say nothing, so that the content decides. curl sends the last one by default.
OWN_TYPE = "application/octet-stream"
_PLAIN = ("", "text/plain", OWN_TYPE, "application/x-www-form-urlencoded")
# Limits of a body that is predicted in the event loop; together they allow some milliseconds.
_MOST_BYTES = 1 << 13
_MOST_ROWS = 1 << 8
_MOST_VALUES = 1 << 12
# Most bytes of a text that this process reads: parsers take at most some hundred times as much memory.
_MOST_BYTES_HERE = 1 << 18
# A row of text ends with a line break, a row of JSON begins with a brace.
_ROW_ENDS = b"{", b"\n", b"\r"


async def find_predictor(
    context: AppContext, reference: str, strict: bool = False, explain: int = 0
) -> tuple[Predictor, Reference]:
    """Return the predictor of the model that a reference means, from memory or disk, and the resolved reference.

    Raises ServiceError unknown_model, unknown_alias, no_contributions.
    """
    found = await context.references.find(reference)
    predictor = loaded_predictor(context.settings, found.model_id)
    if predictor is None:
        await run_in_threadpool(context.store.model, found.model_id)
        predictor = await run_in_threadpool(load_predictor, context.settings, found.model_id)
    predictor = predictor.with_strict(strict)
    return predictor.explaining(explain) if explain else predictor, found


async def predicted(
    context: AppContext, request: Request, predictor: Predictor, model: Reference, options: InputOptions
) -> Predicted:
    """Predict all rows of the request's body; the caller closes the result.

    options  options of the rows, from the query parameters
    Raises ServiceError for the first fault of the body.
    """
    kind, settings, shared = content_type(request), context.settings, context.shared
    chunks = stream(request, settings.max_json_bytes if kind == JSON else settings.max_predict_bytes)
    head, is_whole = await head_of(chunks)
    beginning = b"".join(head)
    complete = replace(options, format=format_of(predictor, kind, beginning))
    is_object, is_binary = complete.format == FORMAT_OF_OBJECTS, stored_format(beginning) is not None
    is_plain = not (is_binary or complete.format in STORED or is_compressed(beginning))
    is_ready = is_whole and is_plain and request.app.state.prediction_code.is_loaded
    if is_ready and options == DEFAULTS and _are_few(predictor, beginning):
        return predicted_rows(predictor, complete, head, BytesIO())
    client = client_of(request.scope)
    values = context.room.file(client)
    try:
        with context.room.file(client) as body:
            body.writelines(head)
            if not is_whole:
                async with turn(request, shared.open):
                    async for chunk in Hurry(request, shared.open).rest(chunks):
                        await run_in_threadpool(body.write, chunk)
            if is_object and body.size > settings.max_json_bytes:
                raise too_large(settings.max_json_bytes)
            if is_object or (is_plain and body.size <= _MOST_BYTES_HERE):
                body.seek(0)
                work = partial(predicted_rows, predictor, complete, [body.read()], values)
            else:
                work = partial(predict_apart, settings, predictor, model.model_id, complete, body, values)
            async with turn(request, shared.predictions):
                return await in_thread(request, work)
    except BaseException:
        values.close()
        raise


def _are_few(predictor: Predictor, body: bytes) -> bool:
    """Whether a body of text has so few rows and decision values that the event loop can predict it at once."""
    if len(body) > _MOST_BYTES or not predictor.is_light:
        return False
    rows = 1 + max(map(body.count, _ROW_ENDS))
    return rows <= _MOST_ROWS and rows * (predictor.n_values or 1) <= _MOST_VALUES


def content_type(request: Request) -> str:
    """Return the Content-Type: one of TYPES, JSON, or "" (the content decides). Raises ServiceError unknown_format."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "" if stated in _PLAIN or stated.startswith("multipart/") else stated  # `stream` refuses a form
    if kind not in ("", *TYPES, JSON):
        known = ", ".join([*TYPES, JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return kind


def prediction_response(request: Request, predicted: Predicted, model: Reference) -> Response:
    """Make the response, in JSON unless the request accepts another type; once sent, it closes `predicted`.

    If a name or an alias named the model, its headers have the model's id and version.
    """
    accepted = request.headers.get("accept", "")
    kind = next((kind for kind in ANSWERS if kind in accepted), "application/json")
    headers = {"Rows": str(predicted.rows), "Unknown-Features": str(predicted.unknown_features)}
    if model.version is not None:
        headers |= {"Model-Id": model.model_id, "Model-Version": str(model.version)}
    if predicted.unknown_columns:
        names = ", ".join(quote(name, safe=" ") for name in first_names(predicted.unknown_columns))
        headers |= {"Unknown-Columns": str(len(predicted.unknown_columns)), "Unknown-Column-Names": names}
    if predicted.explained:
        headers["Against"] = predicted.explained[2]
    if predicted.rows > _MOST_ROWS:
        return _ClosingResponse(predicted, kind, headers)
    try:
        return Response(b"".join(ANSWERS[kind](predicted)), media_type=kind, headers=headers)
    finally:
        predicted.close()


class _ClosingResponse(StreamingResponse):
    """Streams predictions, and afterwards removes them from the disk, whether they were sent or not."""

    def __init__(self, predicted: Predicted, kind: str, headers: dict[str, str]) -> None:
        self._predicted = predicted
        super().__init__(ANSWERS[kind](predicted), media_type=kind, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._predicted.close()
