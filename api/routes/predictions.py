"""/v1/predictions: predictions of files into files: submit, look, cancel, forget."""

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.answers import answers, body_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import JsonObject
from streamsvm.api.requests.repeated import OncePredicted
from streamsvm.service.jobs.progress.states import PREDICTION_STATES
from streamsvm.service.predictions.spec import parse_prediction, prediction_view, submit

router = APIRouter(prefix="/v1/predictions", tags=["predictions"])

_BODY, _ACCEPTED = body_of("PredictionSpec"), answers("FilePrediction", 202, "The prediction")
_MOST_WAIT_SECONDS, _LOOK_SECONDS = 60, 0.1


@router.post("", status_code=202, operation_id="submitPrediction", openapi_extra=_BODY, responses=_ACCEPTED)
def submit_prediction(context: Context, fields: JsonObject, response: Response, once: OncePredicted) -> dict[str, Any]:
    """Queue a prediction of files. The model is the one that its reference means now."""
    about = context.store, context.settings, context.datasets
    return once.answer(response, fields, lambda key: submit(*about, parse_prediction(fields), key))


@router.get("", operation_id="listPredictions", responses=answers("FilePredictions"))
def list_predictions(
    context: Context,
    state: Literal[tuple(PREDICTION_STATES)] | None = None,  # type: ignore[valid-type]
    page_token: Annotated[str | None, Query(pattern="^prd_[0-9A-Z]{26}$")] = None,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """Predictions of files, the newest first, and the `next_page_token` of older ones."""
    records = context.store.jobs(state, page_token, page_size + 1, "prediction")
    shown = [prediction_view(context.settings, record) for record in records[:page_size]]
    return {"predictions": shown, "next_page_token": shown[-1]["id"] if len(records) > page_size else None}


@router.get("/{prediction_id}", operation_id="getPrediction", responses=answers("FilePrediction"))
async def get_prediction(
    context: Context, prediction_id: str, wait_seconds: Annotated[float, Query(ge=0, le=_MOST_WAIT_SECONDS)] = 0
) -> dict[str, Any]:
    """A prediction, with live progress. `wait_seconds` delays the answer until it has ended, at most so long."""
    ends = time.monotonic() + wait_seconds
    while True:
        change = context.store.change()
        shown = await run_in_threadpool(_view, context, prediction_id)
        if not PREDICTION_STATES[shown["state"]] or time.monotonic() >= ends:
            return shown
        while context.store.change() == change and time.monotonic() < ends:
            await asyncio.sleep(_LOOK_SECONDS)


def _view(context: AppContext, prediction_id: str) -> dict[str, Any]:
    return prediction_view(context.settings, context.store.job(prediction_id, "prediction"))


@router.post("/{prediction_id}/cancel", status_code=202, operation_id="cancelPrediction", responses=_ACCEPTED)
def cancel_prediction(context: Context, prediction_id: str) -> dict[str, Any]:
    """End a prediction; nothing stays at its destination."""
    context.store.request(prediction_id, "cancel", "prediction")
    return _view(context, prediction_id)


@router.delete("/{prediction_id}", status_code=204, operation_id="deletePrediction")
def delete_prediction(context: Context, prediction_id: str) -> Response:
    """Delete the record of a prediction that has ended. Its file stays."""
    context.store.delete_work(prediction_id, "prediction")
    return Response(status_code=204)
