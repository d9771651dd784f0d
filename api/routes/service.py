"""/v1/info: version, limits and abilities of the service. /v2/health: whether it runs, and is ready, as probes ask."""

import logging
import sqlite3
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, Request

from streamsvm.api.answers import answers
from streamsvm.api.context import Context
from streamsvm.reader.parsers import READERS
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.trainer.solvers import SOLVERS

router = APIRouter(tags=["service"])

_log = logging.getLogger("streamsvm.api")
_SEE_LOG = "The service's log says more."


@router.get("/v2/health/live", operation_id="serverLive", responses=answers("Live"))
async def server_live() -> dict[str, bool]:
    """Answer, which shows that the process runs."""
    return {"live": True}


@router.get("/v2/health/ready", operation_id="serverReady", responses=answers("Ready"))
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


@router.get("/v1/info", operation_id="getInfo", responses=answers("Info"))
async def get_info(context: Context, request: Request) -> dict[str, Any]:
    """Version, limits, features, solvers and formats."""
    settings = {name: value for name, value in asdict(context.settings).items() if value is not None}
    return {
        "version": version("streamsvm"),
        "limits": {name: settings[name] for name in settings if name.startswith("max_")},
        "features": {
            "tokens": not await request.app.state.access.is_open(),
            "onnx": find_spec("onnx") is not None,
        },
        "solvers": list(SOLVERS),
        "losses": list(FIELDS["loss"].choices),
        "formats": {"datasets": list(READERS), "models": list(MODEL_FORMATS)},
    }
