"""Predicts the rows of a request's body, and makes the response.

A few rows are predicted in the event loop, other short text in a thread. A body that is long, compressed or in a stored
format may take much more memory than its size, so a child process reads it.
"""

import io
import logging
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from io import BytesIO
from threading import Lock
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.api.access.auth import client_of
from streamsvm.api.context import AppContext
from streamsvm.api.requests.body import head_of, parse_object, stream, too_large
from streamsvm.api.requests.deadlines import Hurry
from streamsvm.api.requests.leaving import in_thread, turn
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import is_compressed
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.sniff import has_objects, lines_of, stored_format
from streamsvm.service.errors import ServiceError, refusing
from streamsvm.service.models.apart import predict_apart
from streamsvm.service.models.loaded import load_predictor, loaded_predictor, samples
from streamsvm.service.models.predicting.answers import ANSWERS, BinaryFile, Predicted, first_names, keep
from streamsvm.service.models.predicting.predictor import DEFAULTS, Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import TableRows, json_documents, json_rows, json_tables
from streamsvm.service.records.models import Reference

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
FORMAT_OF_OBJECTS = "json"  # one object that has all rows, see `json_rows`
STORED = (*STORED_TABLES, "npz")  # formats that are not read from front to back
# Large bodies of JSON wait for each other: several threads at work in Python would keep the event loop waiting.
_LARGE_BYTES, _large = 1 << 16, Lock()
_log = logging.getLogger("streamsvm.api")


def predicted_rows(
    predictor: Predictor, options: InputOptions, chunks: Iterable[bytes], values: BinaryFile
) -> Predicted:
    """Predict the rows of a short body, in the calling thread.

    options  options of the rows, from the query parameters, and their format
    values   an empty file that takes the decision values
    Raises ServiceError for the first fault.
    """
    with refusing(InputError):
        if options.format != FORMAT_OF_OBJECTS:
            return keep(predictor, predictor.predict_text(chunks, None, options), values)
        body = b"".join(chunks)
        with nullcontext() if len(body) < _LARGE_BYTES else _large:
            return keep(predictor, _of_json(predictor, body, options.index_base), values)


def format_of(predictor: Predictor, kind: str, head: bytes) -> str:
    """Return the format of a body that begins with `head`; "auto": `Predictor.settled` finds it out.

    kind  Content-Type of the request as `content_type` returns it
    """
    if kind or predictor.reads_documents or not head.lstrip().startswith(b"{"):
        return {**TYPES, JSON: FORMAT_OF_OBJECTS}.get(kind, "auto")
    are_lines = has_objects(head) and [line[:1] for line in lines_of(head)[:2]] == [b"{", b"{"]
    return "auto" if are_lines else FORMAT_OF_OBJECTS


def _of_json(predictor: Predictor, body: bytes, index_base: IndexBase) -> Iterator[Prediction]:
    try:
        fields = parse_object(body)
    except ServiceError as error:
        if body.lstrip().startswith(b"["):
            error.hint = 'Send the list as the rows of an object: {"rows": [...]}.'
        raise
    rows = fields.get("rows")
    # A model of documents may be sent rows of hashed features.
    if predictor.reads_documents and not (isinstance(rows, list) and not any(isinstance(row, str) for row in rows)):
        return predictor.predict_documents(json_documents(fields))
    table, numbering = json_tables(fields, predictor.input, predictor.model.index_base), predictor.numbering(index_base)
    if table is None:
        table = TableRows(numbering.renumbered(json_rows(fields, numbering.base, predictor.model.n_features)), {}, None)
    return predictor.predict_table(table)


class PredictionCode:
    """Loads the code that predicts a few rows by linear models in the event loop."""

    is_loaded = False  # whether `load` has succeeded, so that the event loop may predict

    def load(self) -> None:
        """Predict rows of every kind, so that code is loaded. An error is logged; threads then predict all rows."""
        try:
            for predictor, format_, body in samples():
                predicted = predicted_rows(predictor, replace(DEFAULTS, format=format_), [body], io.BytesIO())
                for written in ANSWERS.values():
                    b"".join(written(predicted))
        except Exception:
            _log.exception("threads predict all rows: the code of predictions could not be loaded")
        else:
            self.is_loaded = True


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
