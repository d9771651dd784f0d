"""The shortcuts of predictions: few rows of a linear model in memory take less time than passing them to a thread."""

import re
import time
from collections.abc import Callable, Mapping
from io import BytesIO

from fastapi import Response
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Scope

from streamsvm.api.context import AppContext
from streamsvm.api.routes.metrics import Metrics
from streamsvm.api.routes.predicting import STORED, TYPES, content_type, predicted_rows, prediction_response
from streamsvm.api.shortcuts.loading import PredictionCode
from streamsvm.reader.ingest.decompress import is_compressed
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import stored_format
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.loaded import loaded_predictor
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.records.models import Reference

# Limits of a body that is predicted in the event loop; together they allow some milliseconds.
_MOST_BYTES = 1 << 13
_MOST_ROWS = 1 << 8
_MOST_VALUES = 1 << 12
# A row of text ends with a line break, a row of JSON begins with a brace.
_ROW_ENDS = b"{", b"\n", b"\r"
_MODEL = r"(?P<model_id>[A-Za-z0-9_.:@-]{1,160})"
_PATH = re.compile(rf"/v1/models/{_MODEL}/predict")

# Returns the number of rows and the response.
Predict = Callable[[Request, Reference, Predictor, bytes], tuple[int, Response]]


class Predictions:
    """Answers requests for predictions that have short bodies, with `predict`."""

    is_logged = True

    def __init__(
        self, route: APIRoute, predict: Predict, context: AppContext, metrics: Metrics, code: PredictionCode
    ) -> None:
        self.route = route
        self._predict = predict
        self._context, self._metrics, self._code = context, metrics, code

    def parameters(self, scope: Scope) -> Mapping[str, str] | None:
        path = _PATH.fullmatch(scope["path"])
        return path.groupdict() if path and scope["method"] == "POST" and not scope["query_string"] else None

    async def answer(self, request: Request, parameters: Mapping[str, str]) -> Response | None:
        if not self._code.is_loaded or not _is_short(request):
            return None
        begun, model = time.monotonic(), await self._context.references.find(parameters["model_id"])
        predictor = loaded_predictor(self._context.settings, model.model_id)
        if predictor is None or not predictor.is_light:
            return None
        rows, response = self._predict(request, model, predictor, await request.body())
        self._metrics.observe_prediction(rows, time.monotonic() - begun)
        return response


def predict_shortcut(route: APIRoute, context: AppContext, metrics: Metrics, code: PredictionCode) -> Predictions:
    """Make the shortcut of POST /v1/models/{model_id}/predict."""

    def predict(request: Request, model: Reference, predictor: Predictor, body: bytes) -> tuple[int, Response]:
        if not _is_few(predictor, body):
            raise ServiceError("answer_too_large", "the event loop predicts few rows only")
        kind = content_type(request)
        predicted = predicted_rows(context.settings, predictor, kind, [body], InputOptions(), BytesIO())
        return predicted.rows, prediction_response(request, predicted, model)

    return Predictions(route, predict, context, metrics, code)


def _is_short(request: Request) -> bool:
    """Tell whether the request states that its body is short; never for a form."""
    headers = request.headers
    length = headers.get("content-length", "")
    others = ("multipart/", *(kind for kind, format_ in TYPES.items() if format_ in STORED))
    is_plain = "transfer-encoding" not in headers and not headers.get("content-type", "").lower().startswith(others)
    return is_plain and length.isdecimal() and len(length) <= len(str(_MOST_BYTES)) and int(length) <= _MOST_BYTES


def _is_few(predictor: Predictor, body: bytes) -> bool:
    """Tell whether the body is text, not compressed, and has few rows with few decision values."""
    is_text = not is_compressed(body) and stored_format(body) is None
    rows = 1 + max(map(body.count, _ROW_ENDS))
    return is_text and rows <= _MOST_ROWS and rows * (predictor.n_values or 1) <= _MOST_VALUES
