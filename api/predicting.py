"""What a request for predictions brings and what it wants back; the work is done in threads of its own."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from anyio import from_thread
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from api.body import parse_object, stream, whole
from api.clients import client_of
from api.context import AppContext
from api.leaving import in_thread, turn
from reader.errors import InputError
from reader.limits import Limits
from reader.options import IndexBase, InputOptions
from service.errors import ServiceError
from service.models.json_rows import json_documents, json_rows, json_tables
from service.models.prediction import ANSWERS, Predicted, keep
from service.models.predictor import MOST_FEATURES, Prediction, Predictor
from service.models.raw_rows import TableRows
from service.models.registry import load_predictor
from service.room import RoomFile

JSON = "application/json"
TYPES = {
    "text/libsvm": "libsvm",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/plain": "text",
    "text/x-fasta": "fasta",
}
# Taken for text of the kind the model was trained on. curl sends the last one unasked.
_PLAIN = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")
_HEAD_BYTES = 1 << 16


async def find_predictor(context: AppContext, model_id: str, strict: bool = False) -> Predictor:
    """The model. Raises ServiceError unknown_model."""

    def find() -> Predictor:
        return load_predictor(context.settings, context.store.model(model_id)["id"])

    return (await run_in_threadpool(find)).with_strict(strict)


async def predicted(context: AppContext, request: Request, predictor: Predictor, said: InputOptions) -> Predicted:
    """Predictions for all rows of the body, of which `said` tells more; the caller closes them.

    Raises ServiceError for the first fault of the body.
    """
    values = context.room.file(client_of(request.scope))
    try:
        return await _predicted(context, request, predictor, said, values)
    except BaseException:
        values.close()
        raise


async def _predicted(
    context: AppContext, request: Request, predictor: Predictor, said: InputOptions, values: RoomFile
) -> Predicted:
    kind = _content_type(request)
    if kind == JSON:
        async with whole(request, context.settings.max_json_bytes) as body, turn(request, context.shared.whole):
            return await in_thread(request, partial(_of_json, values, predictor, body, said.index_base))
    most_bytes = context.settings.max_predict_bytes
    options = replace(said, format=TYPES[kind] if kind else predictor.text_format)
    limits = Limits(most_bytes, max_features=MOST_FEATURES)
    chunks = stream(request, most_bytes)
    head, is_whole = await _head(chunks)
    rest = iter(()) if is_whole else _arriving(chunks)

    def work() -> Predicted:
        return _keep(values, predictor, predictor.predict_text(chain(head, rest), limits, options))

    threads = context.shared.whole if is_whole else context.shared.arriving
    async with turn(request, threads):
        return await in_thread(request, work)


def answer_type(request: Request) -> str:
    """The one of ANSWERS that the request accepts; JSON if it names none."""
    accepted = request.headers.get("accept", "")
    return next((kind for kind in ANSWERS if kind in accepted), JSON)


def _content_type(request: Request) -> str:
    """One of TYPES, JSON, or "" if none is stated."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "" if stated in _PLAIN else stated
    if kind not in ("", *TYPES, JSON):
        known = ", ".join([*TYPES, JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return kind


def _keep(values: RoomFile, predictor: Predictor, predictions: Iterator[Prediction]) -> Predicted:
    try:
        return keep(predictor, predictions, values)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


def _of_json(values: RoomFile, predictor: Predictor, body: bytes, index_base: IndexBase) -> Predicted:
    fields = parse_object(body)
    if predictor.reads_documents and "documents" in fields:
        return _keep(values, predictor, predictor.predict_documents(json_documents(fields)))
    table, numbering = json_tables(fields, predictor.input, predictor.index_base), predictor.numbering(index_base)
    if table is None:
        table = TableRows(numbering.renumbered(json_rows(fields, numbering.base)), 0, None)
    return _keep(values, predictor, (predictor.predict_table(each) for each in [table]))


async def _head(chunks: AsyncIterator[bytes]) -> tuple[list[bytes], bool]:
    """The first of the chunks, and whether they are all."""
    head, size = list[bytes](), 0
    while size < _HEAD_BYTES:
        chunk = await anext(chunks, None)
        if chunk is None:
            return head, True
        head.append(chunk)
        size += len(chunk)
    return head, False


def _arriving(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """What arrives in the event loop, in this thread."""
    while (chunk := from_thread.run(anext, chunks, None)) is not None:
        yield chunk
