"""/predictions and /predictions/{id}: the predictions of files, a form that submits one, and one of them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import Context
from streamsvm.api.pages.render import missing_page, page
from streamsvm.service.errors import ServiceError
from streamsvm.service.predictions.request import FORMATS, OUTPUTS
from streamsvm.service.predictions.submission import prediction_view
from streamsvm.service.processes.run import log_tail
from streamsvm.service.records.predictions import PREDICTION_STATES

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50


@router.get("/predictions", operation_id="showPredictions")
def show_predictions(
    context: Context, request: Request, before: Annotated[str | None, Query(pattern="^prd_[0-9A-Z]{26}$")] = None
) -> HTMLResponse:
    """Show predictions of files, submitted `before` one of them, and a form that submits one."""
    store = context.store
    newest = store.models()[:_MOST_SHOWN]
    records = store.predictions(None, before, _MOST_SHOWN + 1)
    shown = [prediction_view(context.settings, record) for record in records[:_MOST_SHOWN]]
    return page(
        request,
        "predictions.html",
        predictions=shown,
        older=shown[-1]["id"] if len(records) > _MOST_SHOWN else None,
        before=before,
        models=[each["name"] for each in store.registered_models()] + [each["id"] for each in newest],
        datasets=[record["name"] for record in store.datasets() if record["state"] == "ready"],
        has_imports=bool(context.settings.import_dir or context.settings.import_sources),
        has_exports=bool(context.settings.export_dir or context.settings.export_destinations),
        formats=FORMATS,
        outputs=OUTPUTS,
    )


@router.get("/predictions/{prediction_id}", operation_id="showPrediction")
def show_prediction(context: Context, request: Request, prediction_id: str) -> HTMLResponse:
    """Show a prediction of files."""
    try:
        prediction = prediction_view(context.settings, context.store.prediction(prediction_id))
    except ServiceError as error:
        return missing_page(request, error)
    return page(
        request,
        "prediction.html",
        prediction=prediction,
        ended=not PREDICTION_STATES[prediction["state"]],
        log=log_tail(context.settings.predictions / prediction_id / "log"),
    )
