"""/v1/datasets/{name}/uploads: uploads that go on after a lost connection."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool

from streamsvm.api.answers import Responses, answers, body_of
from streamsvm.api.context import Context
from streamsvm.api.errors import problem
from streamsvm.api.requests.repeated import PARTIAL, PartHeaders, limits, state, take
from streamsvm.service.errors import ServiceError

router = APIRouter(prefix="/v1/datasets/{name}/uploads/{upload_id}", tags=["datasets"])

_HEADERS: dict[str, Any] = {
    "Upload-Offset": {"description": "the byte from which to go on", "schema": {"type": "integer"}},
    "Upload-Complete": {"description": "`?1` once all bytes have come, else `?0`", "schema": {"type": "string"}},
    "Upload-Limit": {"description": "bytes it may have; seconds it waits for more", "schema": {"type": "string"}},
}
_STATE: Responses = {204: {"description": "How much has come.", "headers": _HEADERS}}
_APPENDED: Responses = {
    **answers("Dataset", 201, "The upload is complete: the dataset, whose rows are there"),
    204: {"description": "The bytes were taken; others must follow.", "headers": _HEADERS},
}
_RAW_BODY = body_of(files=[PARTIAL])


@router.head("", status_code=204, operation_id="getUpload", responses=_STATE)
async def get_upload(context: Context, name: str, upload_id: str) -> Response:
    """Say how much of an upload has come, and from which byte to go on; ends a request that still sends to it.

    404 (`unknown_upload`): it is over, was given up, or the service has started again. Begin anew.
    """
    try:
        upload = context.datasets.resumable.find(name, upload_id)
    except ServiceError:
        taken = await run_in_threadpool(context.datasets.uploaded_bytes, name, upload_id)
        if taken is None:
            raise
        shown = {"upload-complete": "?1", "upload-offset": str(taken)}
    else:
        await upload.interrupt()
        shown = state(upload)
    return Response(status_code=204, headers={**shown, **limits(context.settings), "cache-control": "no-store"})


@router.patch(
    "",
    status_code=201,
    operation_id="continueUpload",
    response_model=None,
    responses=_APPENDED,
    openapi_extra=_RAW_BODY,
)
async def continue_upload(
    context: Context,
    request: Request,
    response: Response,
    name: str,
    upload_id: str,
    part: PartHeaders,
    offset: Annotated[str | None, Header(alias="Upload-Offset", description="byte at which the body begins")] = None,
) -> dict[str, Any] | Response:
    """Go on with an upload: the body has its next bytes; with `Upload-Complete: ?1` its last ones.

    409 (`upload_offset_mismatch`): `at` has the byte at which the body must begin.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != PARTIAL:
        raise ServiceError("partial_upload_type", "this is no part of an upload", f"Send Content-Type: {PARTIAL}.")
    if part.offset is None or part.is_last is None:
        missing = "Upload-Offset is the first byte, such as 0; Upload-Complete is ?1 for the last part, else ?0."
        raise ServiceError("upload_header_missing", "Upload-Offset or Upload-Complete is missing or malformed", missing)
    upload = context.datasets.resumable.find(name, upload_id)
    try:
        await take(request, context, upload, part.offset, part)
    except ServiceError as error:
        answer = problem(error.code, error.message, error.hint, error.at)
        answer.headers.update(state(upload))
        return answer
    if not part.is_last:
        return Response(status_code=204, headers=state(upload))
    response.headers.update(state(upload))
    return await run_in_threadpool(context.datasets.view, name)


@router.delete("", status_code=204, operation_id="cancelUpload")
async def cancel_upload(context: Context, name: str, upload_id: str) -> Response:
    """Give an upload up: nothing of it is left."""
    await context.datasets.resumable.find(name, upload_id).end()
    return Response(status_code=204)
