"""/compare?jobs=a,b: a page that shows jobs side by side."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import Context
from streamsvm.api.pages.render import flat, missing_page, page
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.views import job_view

router = APIRouter(include_in_schema=False)

_FEWEST, _MOST = 2, 5
_NAMES = "ABCDE"


@router.get("/compare", operation_id="compareJobs")
def compare_jobs(context: Context, request: Request, jobs: Annotated[str, Query(max_length=1000)] = "") -> HTMLResponse:
    """Show the fields in which jobs differ, their results, and their curves in one picture."""
    ids = list(dict.fromkeys(job for job in jobs.split(",") if job))
    if not _FEWEST <= len(ids) <= _MOST:
        message = f"{len(ids)} jobs cannot be compared: choose {_FEWEST} to {_MOST} of them"
        return page(request, "error.html", 422, error={"message": message}, heading="Compare jobs")
    try:
        shown = [job_view(context.settings, context.store.job(job)) for job in ids]
    except ServiceError as error:
        return missing_page(request, error)
    return page(
        request,
        "compare.html",
        jobs=list(zip(_NAMES, shown, strict=False)),
        fields=differing([flat(job["spec"]) for job in shown]),
        drawn=[
            {"id": job["id"], "name": name, "certificate": (job["result"] or {}).get("certificate")}
            for name, job in zip(_NAMES, shown, strict=False)
        ],
    )


def differing(specs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Map each field that differs between specs to its value in each of them, None where a spec does not have it."""
    names = dict.fromkeys(name for spec in specs for name in spec)
    values = {name: [spec.get(name) for spec in specs] for name in names}
    return {name: each for name, each in values.items() if len({json.dumps(value) for value in each}) > 1}
