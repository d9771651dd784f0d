"""/v2/health: whether the service runs, and whether it is ready, as probes ask."""

import logging
import sqlite3

from fastapi import APIRouter, Request

from streamsvm.api.answers import answers
from streamsvm.api.context import Context
from streamsvm.service.errors import ServiceError

router = APIRouter(prefix="/v2/health", tags=["service"])

_log = logging.getLogger("streamsvm.api")
_SEE_LOG = "The service's log says more."


@router.get("/live", operation_id="serverLive", responses=answers("Live"))
async def server_live() -> dict[str, bool]:
    """Answer, which shows that the process runs."""
    return {"live": True}


@router.get("/ready", operation_id="serverReady", responses=answers("Ready"))
def server_ready(context: Context, request: Request) -> dict[str, bool]:
    """Check that the records can be read, and that imports and jobs are being worked on; else `unavailable`."""
    try:
        request.app.state.soundness.check()
    except (sqlite3.Error, ServiceError) as error:
        _log.error("the records cannot be read: %s", error)
        what = ("the records cannot be read", _SEE_LOG)
        if isinstance(error, ServiceError):
            what = (f"the records cannot be read: {error.code}", error.hint)
        raise ServiceError("unavailable", *what) from None
    if missing := context.datasets.missing_threads():
        raise ServiceError("unavailable", f"there is no thread for {' and '.join(missing)}", _SEE_LOG)
    if context.keeper is not None and (trouble := context.keeper.trouble):
        raise ServiceError("unavailable", trouble, "It is tried again all the time; the service's log says more.")
    return {"ready": True}
