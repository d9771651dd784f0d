"""/v1/jobs"""

from typing import Any, Literal

from fastapi import APIRouter, Response

from api.body import JsonObject
from api.context import Context
from service.following import plan_following
from service.jobs import TRANSITIONS, JobSpec, parse_spec
from service.problem import plan_job
from service.views import history, job_view

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_JOB_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": JobSpec.model_json_schema()}}}
}


@router.post("", status_code=202, operation_id="submitJob", openapi_extra=_JOB_BODY)
def submit_job(context: Context, fields: JsonObject, response: Response) -> dict[str, Any]:
    """Queue a job. What cannot run is refused now."""
    spec = parse_spec(fields)
    record = context.store.dataset(spec.dataset)
    if record["state"] == "ready":
        plan_job(spec, context.datasets.manifest(spec.dataset)[1])
    else:
        plan_following(spec, context.settings.max_features)
    job_id = context.store.add_job(record["id"], spec.model_dump())
    response.headers["Location"] = f"/v1/jobs/{job_id}"
    return job_view(context.settings, context.store.job(job_id))


@router.get("", operation_id="listJobs")
def list_jobs(
    context: Context,
    state: Literal[tuple(TRANSITIONS)] | None = None,  # type: ignore[valid-type]
) -> dict[str, Any]:
    """All jobs, the newest first."""
    return {"jobs": [job_view(context.settings, record) for record in context.store.jobs(state)]}


@router.get("/{job_id}", operation_id="getJob")
def get_job(context: Context, job_id: str) -> dict[str, Any]:
    """A job, with live progress."""
    return job_view(context.settings, context.store.job(job_id))


@router.get("/{job_id}/history", operation_id="getJobHistory")
def get_job_history(context: Context, job_id: str) -> dict[str, Any]:
    """What each pass came to."""
    return {"passes": history(context.settings, context.store.job(job_id)["id"])}
