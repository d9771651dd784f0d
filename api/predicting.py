"""What a request for predictions brings and what it wants back; the work is done in threads of its own."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from anyio import CapacityLimiter, from_thread, to_thread
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from api.body import json_object, stream
from api.context import AppContext
from reader.errors import InputError
from reader.limits import Limits
from reader.options import InputOptions
from service.errors import ServiceError
from service.json_rows import json_rows
from service.models import load_predictor
from service.prediction import ANSWERS, Predicted, keep
from service.predictor import MOST_FEATURES, Prediction, Predictor

T = TypeVar("T")

JSON = "application/json"
TYPES = {"text/libsvm": "libsvm", "text/csv": "csv", "text/tab-separated-values": "tsv"}
# Taken for LIBSVM text. curl sends the last one unasked.
_PLAIN = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")
# Each may hold some 30 MB. They wait here, where nothing but predictions has to wait for them.
_PREDICTIONS = CapacityLimiter(8)


async def find_predictor(context: AppContext, model_id: str, strict: bool = False) -> Predictor:
    """The model. Raises ServiceError unknown_model."""

    def find() -> Predictor:
        return load_predictor(context.settings, context.store.model(model_id)["id"])

    return (await run_in_threadpool(find)).with_strict(strict)


async def predicted(context: AppContext, request: Request, predictor: Predictor, label_column: str | None) -> Predicted:
    """Predictions for all rows of the body. Raises ServiceError for its first fault."""
    kind = _content_type(request)
    if kind == JSON:
        rows = json_rows(await json_object(request), predictor.index_base)
        return await in_thread(lambda: _keep(context, predictor, iter([predictor.predict(rows)])))
    most_bytes = context.settings.max_predict_bytes
    chunks, limits = stream(request, most_bytes), Limits(max_bytes=most_bytes, max_features=MOST_FEATURES)
    options = InputOptions(TYPES[kind], label_column=label_column)
    return await in_thread(
        lambda: _keep(context, predictor, predictor.predict_text(_arriving(chunks), limits, options))
    )


def answer_type(request: Request) -> str:
    """The one of ANSWERS that the request accepts; JSON if it names none."""
    accepted = request.headers.get("accept", "")
    return next((kind for kind in ANSWERS if kind in accepted), JSON)


def _content_type(request: Request) -> str:
    """One of TYPES, or JSON."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "text/libsvm" if stated in _PLAIN else stated
    if kind not in (*TYPES, JSON):
        known = ", ".join([*TYPES, JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return kind


def _keep(context: AppContext, predictor: Predictor, predictions: Iterator[Prediction]) -> Predicted:
    try:
        return keep(predictor, predictions, context.settings.data_dir)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, done beside the event loop."""
    return await to_thread.run_sync(work, limiter=_PREDICTIONS)


def _arriving(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """What arrives in the event loop, in this thread."""
    while (chunk := from_thread.run(anext, chunks, None)) is not None:
        yield chunk
