"""Predicts the rows of a request's body, in threads that are for predictions alone, and makes the response."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from anyio import from_thread
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.api.access.clients import client_of
from streamsvm.api.context import AppContext
from streamsvm.api.requests.body import head_of, parse_object, stream, too_large, whole_body
from streamsvm.api.requests.hurry import Hurry
from streamsvm.api.requests.leaving import Turn, in_thread, turn
from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.sniff import has_objects, with_head
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.models.predicting.answers import ANSWERS, BinaryFile, Predicted, first_names, keep
from streamsvm.service.models.predicting.files import predict_file
from streamsvm.service.models.predicting.json_rows import json_documents, json_rows, json_tables
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import TableRows
from streamsvm.service.models.predicting.rows_read import FORMATS, ParserMaker, stored_formats
from streamsvm.service.records.models import Reference
from streamsvm.service.room import RoomFile
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.long_work import one_at_a_time

JSON = "application/json"
TYPES = {
    "text/libsvm": "libsvm",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/plain": "text",
    "text/x-fasta": "fasta",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/x-orc": "orc",
    "application/x-npz": "npz",
}
STORED = (*STORED_TABLES, "npz")  # formats that are not read from front to back
# Types that say nothing: the content does. curl sends the last one unless told otherwise.
OWN_TYPE = "application/octet-stream"
_PLAIN = ("", "text/plain", OWN_TYPE, "application/x-www-form-urlencoded")
_FEW_ROWS = 256


async def find_predictor(context: AppContext, reference: str, strict: bool = False) -> tuple[Predictor, Reference]:
    """Return the predictor of a model, from memory or disk, and what the reference means.

    Raises ServiceError unknown_model, unknown_alias.
    """
    found = await context.references.find(reference)
    loaded = loaded_predictor(context.settings, found.model_id)
    if loaded is not None:
        return loaded.with_strict(strict), found

    return (await run_in_threadpool(_load, context, found.model_id)).with_strict(strict), found


def _load(context: AppContext, model_id: str) -> Predictor:
    return load_predictor(context.settings, context.store.model(model_id)["id"])


async def predicted(context: AppContext, request: Request, predictor: Predictor, options: InputOptions) -> Predicted:
    """Predict all rows of the body; the caller closes the result.

    options  what the request's parameters say about the rows
    Raises ServiceError for the first fault of the body.
    """
    values = context.room.file(client_of(request.scope))
    try:
        return await _predicted(context, request, predictor, options, values)
    except BaseException:
        values.close()
        raise


async def _predicted(
    context: AppContext, request: Request, predictor: Predictor, options: InputOptions, values: RoomFile
) -> Predicted:
    kind = content_type(request)
    settings = context.settings
    if kind == JSON:
        async with whole_body(request, settings.max_json_bytes) as body, turn(request, context.shared.predictions):
            return await in_thread(request, partial(predicted_rows, settings, predictor, kind, [body], options, values))
    chunks = stream(request, settings.max_predict_bytes)
    head, is_whole = await head_of(chunks)
    parsers = FORMATS | stored_formats(partial(context.room.spooled, client_of(request.scope)))
    predict = partial(predicted_rows, settings, predictor, kind, parsers=parsers)
    if is_whole:
        async with turn(request, context.shared.predictions):
            return await in_thread(request, partial(predict, head, options, values))
    async with turn(request, context.shared.open), turn(request, context.shared.arriving) as held:
        rows = chain(head, _arriving(chunks, held, Hurry(request, context.shared.open)))
        return await in_thread(request, partial(predict, rows, options, values))


def predicted_rows(
    settings: Settings,
    predictor: Predictor,
    kind: str,
    chunks: Iterable[bytes],
    options: InputOptions,
    values: BinaryFile,
    parsers: Mapping[str, ParserMaker] = FORMATS,
) -> Predicted:
    """Predict the rows of a body, in the calling thread.

    kind     what `content_type` returns for the request
    options  what the request's parameters say about the rows
    values   an empty file that takes the decision values
    parsers  makes the parser of each format
    Raises ServiceError for the first fault.
    """
    if not kind and predictor.text_format != "text":
        head, chunks = with_head(chunks)
        kind = JSON if head.lstrip().startswith(b"{") and not _has_json_lines(head) else ""
    if kind == JSON:
        body = _whole(chunks, settings.max_json_bytes)
        with one_at_a_time(len(body)):
            return _predict_json(values, predictor, body, options.index_base)
    complete = replace(options, format=TYPES[kind] if kind else "auto")
    limits = Limits(settings.max_predict_bytes, max_features=MOST_FEATURES)
    return _keep(values, predictor, predict_file(predictor, chunks, complete, limits, parsers))


def _has_json_lines(head: bytes) -> bool:
    return has_objects(head) and head.lstrip().partition(b"\n")[2].lstrip().startswith(b"{")


def _whole(chunks: Iterable[bytes], most_bytes: int) -> bytes:
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) > most_bytes:
            raise too_large(most_bytes)
    return body


def content_type(request: Request) -> str:
    """Return the Content-Type: one of TYPES, JSON, or "" if the content tells. Raises ServiceError unknown_format."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "" if stated in _PLAIN or stated.startswith("multipart/") else stated  # `stream` refuses a form
    if kind not in ("", *TYPES, JSON):
        known = ", ".join([*TYPES, JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return kind


def _keep(values: BinaryFile, predictor: Predictor, predictions: Iterator[Prediction]) -> Predicted:
    try:
        return keep(predictor, predictions, values)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


def _predict_json(values: BinaryFile, predictor: Predictor, body: bytes, index_base: IndexBase) -> Predicted:
    try:
        fields = parse_object(body)
    except ServiceError as error:
        if body.lstrip().startswith(b"["):
            error.hint = 'Send the list as the rows of an object: {"rows": [...]}.'
        raise
    if predictor.reads_documents and not _has_features(fields):
        return _keep(values, predictor, predictor.predict_documents(json_documents(fields)))
    table, numbering = json_tables(fields, predictor.input, predictor.index_base), predictor.numbering(index_base)
    if table is None:
        table = TableRows(numbering.renumbered(json_rows(fields, numbering.base, predictor.n_features)), 0, None)
    return _keep(values, predictor, predictor.predict_table(table))


def _has_features(fields: dict[str, Any]) -> bool:
    """Whether a model of documents is sent rows of hashed features."""
    rows = fields.get("rows")
    return isinstance(rows, list) and not any(isinstance(row, str) for row in rows)


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
    if predicted.rows > _FEW_ROWS:
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
