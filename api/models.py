"""/v1/models"""

import functools
import tempfile
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from api.body import stream
from api.context import Context
from service.exports import MODEL_FORMATS
from service.models import load_model
from service.prediction import pieces, predict_body
from service.predictor import Predictor
from service.settings import Settings
from service.views import model_view

router = APIRouter(prefix="/v1/models", tags=["models"])

_TEXT_BODY = {"requestBody": {"required": True, "content": {"text/libsvm": {"schema": {"type": "string"}}}}}


@router.get("", operation_id="listModels")
def list_models(context: Context) -> dict[str, Any]:
    """All models, the newest first."""
    return {"models": context.store.models()}


@router.get("/{model_id}", operation_id="getModel")
def get_model(context: Context, model_id: str) -> dict[str, Any]:
    """A model, its certificate, and where it comes from."""
    record = context.store.model(model_id)
    return model_view(record, load_model(context.settings, model_id))


@router.get("/{model_id}/file", operation_id="downloadModel", response_class=StreamingResponse)
def download_model(
    context: Context, model_id: str, format: Literal["liblinear", "npz", "json"] = "liblinear"
) -> StreamingResponse:
    """The model as a file."""
    model = load_model(context.settings, context.store.model(model_id)["id"])
    kind = MODEL_FORMATS[format]
    name = f'attachment; filename="{model_id}{kind.suffix}"'
    return StreamingResponse(kind.write(model), media_type=kind.media_type, headers={"Content-Disposition": name})


@router.post("/{model_id}/predict", operation_id="predict", response_class=StreamingResponse, openapi_extra=_TEXT_BODY)
async def predict(context: Context, request: Request, model_id: str) -> StreamingResponse:
    """Labels and decision values for rows of LIBSVM text; the labels in the text are not looked at."""
    predictor = _predictor(context.settings, context.store.model(model_id)["id"])
    with tempfile.TemporaryFile() as body:
        async for chunk in stream(request, context.settings.max_predict_bytes):
            body.write(chunk)
        body.seek(0)
        answer = await run_in_threadpool(predict_body, predictor, body)
    return StreamingResponse(pieces(answer), media_type="application/json")


@functools.lru_cache(maxsize=4)
def _predictor(settings: Settings, model_id: str) -> Predictor:
    """A model never changes: the last few asked for are kept."""
    return Predictor(load_model(settings, model_id))
