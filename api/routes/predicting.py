"""Predicts the rows of a request's body, few in the event loop and others in a thread, and makes the response."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from itertools import chain
from urllib.parse import quote

from anyio import from_thread
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.api.access.clients import client_of
from streamsvm.api.context import AppContext
from streamsvm.api.requests.body import head_of, large_body, stream
from streamsvm.api.requests.hurry import Hurry
from streamsvm.api.requests.leaving import Turn, in_thread, turn
from streamsvm.api.routes.rows import JSON, STORED, TYPES, predicted_rows
from streamsvm.reader.ingest.decompress import is_compressed
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import stored_format
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.models.predicting.answers import ANSWERS, Predicted, first_names
from streamsvm.service.models.predicting.predictor import DEFAULTS, Predictor
from streamsvm.service.models.predicting.rows_read import FORMATS, stored_formats
from streamsvm.service.records.models import Reference

# Types that say nothing: the content does. curl sends the last one unless told otherwise.
OWN_TYPE = "application/octet-stream"
_PLAIN = ("", "text/plain", OWN_TYPE, "application/x-www-form-urlencoded")
# Limits of a body that is predicted in the event loop; together they allow some milliseconds.
_MOST_BYTES = 1 << 13
_MOST_ROWS = 1 << 8
_MOST_VALUES = 1 << 12
# A row of text ends with a line break, a row of JSON begins with a brace.
_ROW_ENDS = b"{", b"\n", b"\r"


async def find_predictor(context: AppContext, reference: str, strict: bool = False) -> tuple[Predictor, Reference]:
    """Return the predictor of a model, from memory or disk, and what the reference means.

    Raises ServiceError unknown_model, unknown_alias.
    """
    found = await context.references.find(reference)
    predictor = loaded_predictor(context.settings, found.model_id)
    if predictor is None:
        predictor = await run_in_threadpool(_load, context, found.model_id)
    return predictor.with_strict(strict), found


def _load(context: AppContext, model_id: str) -> Predictor:
    return load_predictor(context.settings, context.store.model(model_id)["id"])


async def predicted(context: AppContext, request: Request, predictor: Predictor, options: InputOptions) -> Predicted:
    """Predict all rows of the body; the caller closes the result.

    options  what the request's parameters say about the rows
    Raises ServiceError for the first fault of the body.
    """
    kind, settings = content_type(request), context.settings
    most = settings.max_json_bytes if kind == JSON else settings.max_predict_bytes
    chunks = stream(request, most)
    head, is_whole = await head_of(chunks)
    predict = partial(predicted_rows, settings, predictor, kind, options)
    if is_whole and request.app.state.prediction_code.is_loaded and _are_few(predictor, kind, options, b"".join(head)):
        return predict(head, BytesIO())
    client = client_of(request.scope)
    values, parsers = context.room.file(client), FORMATS | stored_formats(partial(context.room.spooled, client))
    try:
        async with _turn(context, request, head, None if is_whole else chunks, kind, most) as rows:
            return await in_thread(request, partial(predict, rows, values, parsers))
    except BaseException:
        values.close()
        raise


def _are_few(predictor: Predictor, kind: str, options: InputOptions, body: bytes) -> bool:
    """Tell whether a body is text with few rows of few decision values, which the loaded code predicts at once."""
    if len(body) > _MOST_BYTES or not predictor.is_light or options != DEFAULTS or TYPES.get(kind) in STORED:
        return False
    rows = 1 + max(map(body.count, _ROW_ENDS))
    is_text = not is_compressed(body) and stored_format(body) is None
    return is_text and rows <= _MOST_ROWS and rows * (predictor.n_values or 1) <= _MOST_VALUES


@asynccontextmanager
async def _turn(
    context: AppContext, request: Request, head: list[bytes], rest: AsyncIterator[bytes] | None, kind: str, most: int
) -> AsyncIterator[Iterable[bytes]]:
    """Wait until a thread may predict for this client, and provide the body.

    rest  what comes after `head`; None if all has arrived
    """
    shared = context.shared
    if rest is None:
        async with turn(request, shared.predictions):
            yield head
    elif kind == JSON:
        async with large_body(request, head, rest, most) as body, turn(request, shared.predictions):
            yield [body]
    else:
        async with turn(request, shared.open), turn(request, shared.arriving) as held:
            yield chain(head, _arriving(rest, held, Hurry(request, shared.open)))


def content_type(request: Request) -> str:
    """Return the Content-Type: one of TYPES, JSON, or "" if the content tells. Raises ServiceError unknown_format."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "" if stated in _PLAIN or stated.startswith("multipart/") else stated  # `stream` refuses a form
    if kind not in ("", *TYPES, JSON):
        known = ", ".join([*TYPES, JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return kind


def _arriving(chunks: AsyncIterator[bytes], held: Turn, hurry: Hurry) -> Iterator[bytes]:
    """Yield in this thread the chunks that arrive in the event loop.

    While it waits for a chunk, another request may have its turn.
    """

    async def next_chunk() -> bytes | None:
        return await held.lent(hurry.next(chunks))

    while (chunk := from_thread.run(next_chunk)) is not None:
        yield chunk


def prediction_response(request: Request, predicted: Predicted, model: Reference) -> Response:
    """Make the response, in JSON unless the request accepts another type; it closes `predicted` once it was sent.

    Its headers name the version that a model's name, or alias, meant.
    """
    accepted = request.headers.get("accept", "")
    kind = next((kind for kind in ANSWERS if kind in accepted), "application/json")
    headers = _headers(predicted, model)
    if predicted.rows > _MOST_ROWS:
        return _ClosingResponse(predicted, kind, headers)
    try:
        return Response(b"".join(ANSWERS[kind](predicted)), media_type=kind, headers=headers)
    finally:
        predicted.close()


class _ClosingResponse(StreamingResponse):
    """Streams predictions, and removes them from disk when it ends, sent or not."""

    def __init__(self, predicted: Predicted, kind: str, headers: dict[str, str]) -> None:
        self._predicted = predicted
        super().__init__(ANSWERS[kind](predicted), media_type=kind, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._predicted.close()


def _headers(predicted: Predicted, model: Reference) -> dict[str, str]:
    headers = {"Rows": str(predicted.rows), "Unknown-Features": str(predicted.unknown_features)}
    if model.version is not None:
        headers |= {"Model-Id": model.model_id, "Model-Version": str(model.version)}
    if predicted.unknown_columns:
        names = ", ".join(quote(name, safe=" ") for name in first_names(predicted.unknown_columns))
        headers |= {"Unknown-Columns": str(len(predicted.unknown_columns)), "Unknown-Column-Names": names}
    return headers
