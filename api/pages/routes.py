"""/ and /jobs/{id}: what there is, and a job as it trains."""

from typing import Any, get_args

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.auth import COOKIE
from api.context import AppContext, Context
from api.pages.render import page
from reader.parsers import READERS
from service.errors import ServiceError
from service.exports import MODEL_FORMATS
from service.jobs import JobSpec
from service.run import log_tail
from service.states import TRANSITIONS
from service.views import dataset_view, job_view
from storage.errors import StorageError

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50


@router.get("/", operation_id="showHome")
def show_home(context: Context, request: Request) -> HTMLResponse:
    """Datasets, jobs, models, and the forms to make more of them."""
    return page(
        "home.html",
        datasets=[_dataset(context, record) for record in context.store.datasets()],
        jobs=[job_view(context.settings, record) for record in context.store.jobs(most=_MOST_SHOWN)],
        models=[_model(context, record) for record in context.store.models()[:_MOST_SHOWN]],
        defaults={name: field.default for name, field in JobSpec.model_fields.items()},
        choices={name: get_args(JobSpec.model_fields[name].annotation) for name in ("solver", "loss")},
        formats=MODEL_FORMATS,
        readers=READERS,
        logged_in=COOKIE in request.cookies,
    )


@router.get("/jobs/{job_id}", operation_id="showJob")
def show_job(context: Context, request: Request, job_id: str) -> HTMLResponse:
    """A job, with curves that grow."""
    logged_in = COOKIE in request.cookies
    try:
        record = context.store.job(job_id)
    except ServiceError as error:
        return page("error.html", 404, error=error, logged_in=logged_in)
    return page(
        "job.html",
        job=job_view(context.settings, record),
        ended=not TRANSITIONS[record["state"]],
        log=log_tail(context.settings.jobs / job_id / "log"),
        formats=MODEL_FORMATS,
        logged_in=logged_in,
    )


def _dataset(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    try:
        manifest = context.datasets.manifest(record["name"])[1] if record["state"] == "ready" else None
    except StorageError as error:
        # One that is damaged does not hide the others.
        return {**dataset_view(record, None), "fault": error.message}
    return dataset_view(record, manifest)


def _model(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    """With its job, None if that is deleted."""
    try:
        return {**record, "job": context.store.job(record["job_id"])}
    except ServiceError:
        return {**record, "job": None}
