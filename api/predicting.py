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
from service.errors import ServiceError
from service.json_rows import json_rows
from service.models import load_predictor
from service.prediction import ANSWERS, Predicted, keep
from service.predictor import FORMATS, MOST_FEATURES, Prediction, Predictor

T = TypeVar("T")

JSON = "application/json"
# curl sends the last one unasked.
TEXT_TYPES = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")
# Each may hold some 30 MB. They wait here, where nothing but predictions has to wait for them.
_PREDICTIONS = CapacityLimiter(8)


async def find_predictor(context: AppContext, model_id: str, strict: bool = False) -> Predictor:
    """The model. Raises ServiceError unknown_model."""

    def find() -> Predictor:
        return load_predictor(context.settings, context.store.model(model_id)["id"])

    return (await run_in_threadpool(find)).with_strict(strict)


async def predicted(context: AppContext, request: Request, predictor: Predictor) -> Predicted:
    """Predictions for all rows of the body. Raises ServiceError for its first fault."""
    kind = _format(request)
    if kind == JSON:
        rows = json_rows(await json_object(request), predictor.index_base)
        return await _run(lambda: _keep(context, predictor, iter([predictor.predict(rows)])))
    most_bytes = context.settings.max_predict_bytes
    chunks, limits = stream(request, most_bytes), Limits(max_bytes=most_bytes, max_features=MOST_FEATURES)
    return await _run(lambda: _keep(context, predictor, predictor.predict_text(_arriving(chunks), limits, kind)))


def answer_type(request: Request) -> str:
    """The one of ANSWERS that the request accepts; JSON if it names none."""
    accepted = request.headers.get("accept", "")
    return next((kind for kind in ANSWERS if kind in accepted), JSON)


def _format(request: Request) -> str:
    """The name of a format of text, or JSON."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if stated == JSON:
        return JSON
    name = "libsvm" if stated in TEXT_TYPES else stated.removeprefix("text/")
    if name not in FORMATS:
        known = ", ".join([*(f"text/{name}" for name in FORMATS), JSON])
        raise ServiceError("unknown_format", "rows cannot come in this Content-Type", f"Known types: {known}.")
    return name


def _keep(context: AppContext, predictor: Predictor, predictions: Iterator[Prediction]) -> Predicted:
    try:
        return keep(predictor, predictions, context.settings.data_dir)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None


async def _run(work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=_PREDICTIONS)


def _arriving(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """What arrives in the event loop, in this thread."""
    while (chunk := from_thread.run(anext, chunks, None)) is not None:
        yield chunk
