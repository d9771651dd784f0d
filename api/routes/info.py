"""/v1/info: version, limits and abilities of the service."""

from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, Request

from streamsvm.api.answers import answers
from streamsvm.api.context import Context
from streamsvm.reader.parsers import READERS
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.trainer.solvers import SOLVERS

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/info", operation_id="getInfo", responses=answers("Info"))
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
