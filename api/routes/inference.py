"""/v2, the Open Inference Protocol, with Triton's binary tensor extension."""

import json
import logging
import sqlite3
import time
from importlib import metadata
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.answers import Responses, answers, body_of, type_of
from streamsvm.api.context import Context
from streamsvm.api.requests.body import parse_object, whole_body
from streamsvm.api.requests.leaving import in_thread, turn
from streamsvm.api.routes.predicting import JSON, find_predictor
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.answers import first_names
from streamsvm.service.models.predicting.inference import VERSION, check_version, describe, infer, left_out, outputs_of
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.predicting.tensors import read_tensors, wanted_outputs, write_tensors
from streamsvm.service.records.models import Reference, is_id
from streamsvm.storage.machine.long_work import one_at_a_time

router = APIRouter(prefix="/v2", tags=["inference"])

_log = logging.getLogger("streamsvm.api")
_SEE_LOG = "The service's log says more."
_BINARY = "application/octet-stream"
_LENGTH = "Inference-Header-Content-Length"
_METADATA, _READY = answers("ModelMetadata"), answers("ModelReady")
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_ANSWER: Responses = {
    200: {"description": "The outputs", "model": type_of("Inference"), "content": {JSON: {}, _BINARY: _BYTES}}
}
_INFER: dict[str, Any] = {
    "response_class": Response,
    "responses": _ANSWER,
    "openapi_extra": body_of("InferenceRequest"),
}


@router.get("", operation_id="serverMetadata", responses=answers("Server"))
def server_metadata() -> dict[str, Any]:
    """The name and version of the server, and its extensions of the protocol."""
    extensions = ["binary_tensor_data", "model_repository"]
    return {"name": "streamsvm", "version": metadata.version("streamsvm"), "extensions": extensions}


@router.get("/health/live", operation_id="serverLive", responses=answers("Live"))
async def server_live() -> dict[str, bool]:
    """Answer, which shows that the process runs."""
    return {"live": True}


@router.get("/health/ready", operation_id="serverReady", responses=answers("Ready"))
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


@router.post("/repository/index", operation_id="repositoryIndex", responses=answers("list[IndexEntry]"))
def repository_index(context: Context) -> list[dict[str, str]]:
    """All models, as the protocol's extension for repositories lists them: by name and version, and by id."""
    named = context.store.registered_versions()
    ids = [(record["id"], VERSION) for record in context.store.models()]
    return [{"name": name, "version": str(version), "state": "READY", "reason": ""} for name, version in [*named, *ids]]


@router.get("/models/{model_id}", operation_id="modelMetadata", responses=_METADATA)
@router.get("/models/{model_id}/versions/{version}", operation_id="modelVersionMetadata", responses=_METADATA)
async def model_metadata(context: Context, model_id: str, version: str | None = None) -> dict[str, Any]:
    """The tensors that the model takes and gives, and its versions: 1 of an id, those registered of a name."""
    predictor, model = await find_predictor(context, _reference(model_id, version))
    versions = [VERSION]
    if model.name is not None:
        registered = await run_in_threadpool(context.store.registered_model, model.name)
        versions = [str(each["version"]) for each in reversed(registered["versions"])]
    return describe(model.name or model.model_id, predictor, versions)


@router.get("/models/{model_id}/ready", operation_id="modelReady", responses=_READY)
@router.get("/models/{model_id}/versions/{version}/ready", operation_id="modelVersionReady", responses=_READY)
async def model_ready(context: Context, model_id: str, version: str | None = None) -> dict[str, Any]:
    """Load the model, which shows that it can be applied."""
    await find_predictor(context, _reference(model_id, version))
    return {"name": model_id, "ready": True}


@router.post("/models/{model_id}/infer", operation_id="modelInfer", **_INFER)
@router.post("/models/{model_id}/versions/{version}/infer", operation_id="modelVersionInfer", **_INFER)
async def model_infer(
    context: Context,
    request: Request,
    model_id: str,
    version: str | None = None,
    header_length: Annotated[int | None, Header(alias=_LENGTH, ge=0)] = None,
) -> Response:
    """Labels, decision values and, where there are any, probabilities for dense or sparse rows."""
    begun, (predictor, model) = time.monotonic(), await find_predictor(context, _reference(model_id, version))
    _refuse_encoding(request)
    most = context.settings.max_infer_bytes
    async with whole_body(request, most) as body, turn(request, context.shared.predictions):

        def work() -> tuple[int, Response]:
            with one_at_a_time(len(body) if header_length is None else header_length):
                return answer_tensors(model, predictor, body, header_length, most)

        rows, answer = await in_thread(request, work)
    request.app.state.metrics.observe_prediction("v2", rows, time.monotonic() - begun)
    return answer


def inferred(
    request: Request, model: Reference, predictor: Predictor, body: bytes, most_bytes: int
) -> tuple[int, Response]:
    """Predict a whole body, without a thread; return its number of rows and the response.

    Raises ServiceError; answer_too_large if the numbers of the answer would take more than `most_bytes`.
    """
    _refuse_encoding(request)
    length = request.headers.get(_LENGTH)
    if length is not None and not (length.isascii() and length.isdecimal()):
        raise ServiceError("bad_tensor", f"{_LENGTH} is not a number")
    return answer_tensors(model, predictor, body, None if length is None else int(length), most_bytes)


def answer_tensors(
    model: Reference, predictor: Predictor, body: bytes, header_length: int | None, most_bytes: int
) -> tuple[int, Response]:
    """Predict tensors; return their number of rows and the response. Raises ServiceError as `inferred` does.

    header_length  bytes of the JSON before binary tensors; None if all of the body is JSON
    """
    length = len(body) if header_length is None else header_length
    if length > len(body):
        raise ServiceError("bad_tensor", "the body is shorter than its header says")
    document = parse_object(body[:length])
    wanted = wanted_outputs(document, outputs_of(predictor))
    tensors = read_tensors(document.get("inputs"), memoryview(body)[length:])
    outputs, unknown = infer(predictor, tensors, most_bytes), left_out(predictor, tensors)
    binary = {name for name, is_binary in wanted.items() if is_binary}
    written, data = write_tensors({name: outputs[name] for name in wanted}, binary)
    same_id = {"id": document["id"]} if isinstance(document.get("id"), str) else {}
    columns = {"unknown_columns": len(unknown), "unknown_column_names": ", ".join(first_names(unknown))}
    answer = {
        "model_name": model.name or model.model_id,
        "model_version": VERSION if model.version is None else str(model.version),
        **same_id,
        **({"parameters": columns} if unknown else {}),
    }
    head = json.dumps({**answer, "outputs": written}).encode()
    rows = len(next(iter(outputs.values())))
    if not binary:
        return rows, Response(head, media_type=JSON)
    return rows, Response(head + data, media_type=_BINARY, headers={_LENGTH: str(len(head))})


def _reference(model_id: str, version: str | None) -> str:
    """The reference that a path means. A model's id has one version, 1. Raises ServiceError unknown_model."""
    if version is None:
        return model_id
    if is_id(model_id):
        check_version(version)
        return model_id
    return f"{model_id}:{version}"


def _refuse_encoding(request: Request) -> None:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise ServiceError("unknown_format", "the body is compressed", "Send it uncompressed.")
