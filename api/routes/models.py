"""/v1/models"""

import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.api.access.auth import client_of
from streamsvm.api.answers import Responses, answers, body_of, headers, stream_of, type_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import JsonObject, RowsQuery, only_field
from streamsvm.api.requests.leaving import turn, while_connected
from streamsvm.api.routes.predicting import (
    DEFAULTS,
    JSON,
    OWN_TYPE,
    TYPES,
    find_predictor,
    predicted,
    prediction_response,
)
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.apart import evaluate_apart
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.answers import ANSWERS
from streamsvm.service.models.predicting.applied import MOST_EXPLAINED
from streamsvm.service.models.registry import cut_model, delete_model, model_file, model_view
from streamsvm.service.shares import RoomFile
from streamsvm.storage.models.model_file import read_head

router = APIRouter(prefix="/v1/models", tags=["models"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
# Clients that are made from the document take the first type for every file, and only bytes hold them all.
_MEDIA_TYPES = ["application/octet-stream", *(kind.media_type for kind in MODEL_FORMATS.values())]
_TAG = headers({"ETag": "of the file, for `If-None-Match` and `If-Range`"})
_FILE = {"description": "The file", "headers": _TAG, "content": dict.fromkeys(_MEDIA_TYPES, _BYTES)}
_FILES: Responses = {
    200: _FILE,
    206: {**_FILE, "description": "The range of it that was asked for"},
    304: {"description": "The file is the one that the client has"},
}
_LINES = "application/x-ndjson"
_ABOUT_ROWS = {
    "Rows": "number of rows",
    "Unknown-Features": "values of features that the model does not know",
    "Unknown-Columns": "number of columns that the model does not have, if there are any",
    "Unknown-Column-Names": "their first names, percent-encoded",
    "Against": "what contributions, if there are any, are measured against, `mean` or `empty_row`",
    "Model-Id": "id of the model that a name stands for",
    "Model-Version": "version that a name stands for",
}
_PREDICTIONS: Responses = {
    200: {
        "description": "The predictions",
        "headers": headers(_ABOUT_ROWS),
        "model": type_of("Predictions"),
        "content": {
            JSON: {},
            **{kind: {"schema": {"type": "string"}} for kind in ANSWERS if kind != JSON},
            **stream_of(_LINES, "ClassifiedRow", "EstimatedRow"),
        },
    }
}
_EVALUATION = answers("ClassEvaluation | NumberEvaluation")


@router.get("", operation_id="listModels", responses=answers("Models"))
def list_models(context: Context) -> dict[str, Any]:
    """All models, the newest first."""
    return {"models": context.store.models()}


@router.get("/{model_id}", operation_id="getModel", responses=answers("Model"))
def get_model(context: Context, model_id: str) -> dict[str, Any]:
    """A model, its certificate, and where it comes from."""
    record = context.store.model(model_id)
    return model_view(record, read_head(context.settings.models / record["id"]))


@router.delete("/{model_id}", status_code=204, operation_id="deleteModel")
def remove_model(context: Context, model_id: str) -> Response:
    """Remove a model; the job that made it stays."""
    delete_model(context.settings, context.store, model_id)
    return Response(status_code=204)


@router.get("/{model_id}/file", operation_id="downloadModel", response_class=FileResponse, responses=_FILES)
def download_model(
    context: Context,
    request: Request,
    model_id: str,
    format: Literal[tuple(MODEL_FORMATS)] | None = None,  # type: ignore[valid-type]
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The model as a file, or the range of it that is asked for.

    The default format is the first that can hold the model: LIBLINEAR's text, for a kernel machine LIBSVM's, else npz.
    """
    record = context.store.model(model_id)
    format_, file = model_file(context.settings, record, format, context.room, client_of(request.scope))
    kind = MODEL_FORMATS[format_]
    response = _OpenFileResponse(file, kind.media_type, f"{record['id']}{kind.suffix}")
    tag = response.headers["etag"]
    if tag in if_none_match:
        file.close()
        return Response(status_code=304, headers={"ETag": tag})
    return response


class _OpenFileResponse(FileResponse):
    """Sends a file that has no name, and closes it afterwards, whether it was sent or not."""

    def __init__(self, file: RoomFile, media_type: str, filename: str) -> None:
        self._file = file
        number = file.fileno()
        stat = os.fstat(number)
        super().__init__(f"/proc/self/fd/{number}", media_type=media_type, filename=filename, stat_result=stat)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


@router.post(
    "/{model_id}/predict",
    operation_id="predict",
    response_class=StreamingResponse,
    responses=_PREDICTIONS,
    openapi_extra=body_of("RowsToPredict", "DocumentsToPredict", "StringsToPredict", files=[*TYPES, OWN_TYPE]),
)
async def predict(
    context: Context,
    request: Request,
    model_id: str,
    options: RowsQuery = DEFAULTS,
    strict: bool = False,
    explain: Annotated[int, Query(ge=0, le=MOST_EXPLAINED)] = 0,
) -> Response:
    """Labels, decision values and any probabilities for rows of LIBSVM text, CSV, FASTA or JSON, or for documents.

    Columns of a table are found by name; the answer names columns that the model does not have, which are left out.
    Labels in the text are ignored. A model of documents takes text/plain as a document a line.
    Without a Content-Type, or with the one that curl sends, the body's first bytes tell what it is.
    index_base: the number of the first feature, if it differs from the data of the model.
    explain: as many contributions of features to each decision value, the largest; for linear models, up to 1,000 rows.
    """
    begun, (predictor, model) = time.monotonic(), await find_predictor(context, model_id, strict, explain)
    predictions = await predicted(context, request, predictor, model, options)
    request.app.state.metrics.observe_prediction(predictions.rows, time.monotonic() - begun)
    return prediction_response(request, predictions, model)


@router.post(
    "/{model_id}/evaluate", operation_id="evaluate", openapi_extra=body_of("EvaluationRequest"), responses=_EVALUATION
)
async def evaluate_model(
    context: Context, request: Request, model_id: str, fields: JsonObject, curves: bool = False, threshold: str = ""
) -> dict[str, Any]:
    """Evaluate a model on a dataset: accuracy, AUC, confusion, figures of classes and probabilities, the objective.

    curves: with two classes, also points of the ROC curve and the precision-recall curve.
    threshold: a rule that chooses the answer's `threshold` on these rows, `f1`, `precision>=0.9` or `costs=5:1`.
    """
    name = only_field(fields, "dataset", str)
    model = (await run_in_threadpool(context.store.model, model_id))["id"]
    return {"model_id": model, "dataset": name, **await _evaluate(context, request, model, name, (curves, threshold))}


@router.post(
    "/{model_id}/threshold",
    status_code=201,
    operation_id="setThreshold",
    openapi_extra=body_of("ThresholdRequest"),
    responses=answers("Model", 201),
)
def set_threshold(context: Context, model_id: str, fields: JsonObject) -> dict[str, Any]:
    """Make a model that predicts the first of two classes where this one's decision value is above a threshold.

    It is another model, with an id of its own, for a model never changes: register it as the next version of a name.
    Every route and every file of it predicts so; its decision values are lower by the threshold.
    """
    threshold = only_field(fields, "threshold", float)
    return cut_model(context.settings, context.store, model_id, float(threshold))


async def _evaluate(
    context: AppContext, request: Request, model_id: str, dataset: str, asked: tuple[bool, str]
) -> dict[str, Any]:
    """Wait for this request's turn, then evaluate a model on a dataset. Raises ServiceError, ClientDisconnect."""
    directories = await run_in_threadpool(_directories, context, model_id, dataset)
    try:
        async with turn(request, context.shared.evaluations):
            return await while_connected(request, evaluate_apart(*directories, *asked))
    except ServiceError:
        # A model or dataset that was deleted meanwhile is unknown, not damaged.
        await run_in_threadpool(_directories, context, model_id, dataset)
        raise


def _directories(context: AppContext, model_id: str, dataset: str) -> tuple[Path, Path]:
    """Return the directories of a model and a dataset.

    Raises ServiceError unknown_model, unknown_dataset, not_ready or dataset_spread.
    """
    model, (record, _) = context.store.model(model_id), context.datasets.with_rows(dataset)
    return context.settings.models / model["id"], context.datasets.directory(record["id"])
