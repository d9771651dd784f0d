"""/v1/datasets, and uploads, at /v1/datasets/{name}/uploads, that go on after a lost connection."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import PositiveInt

from streamsvm.api.access.auth import client_of
from streamsvm.api.answers import Responses, answers, body_of
from streamsvm.api.context import Context
from streamsvm.api.errors import problem
from streamsvm.api.requests.body import InputQuery, stream
from streamsvm.api.requests.leaving import while_connected
from streamsvm.api.requests.repeated import (
    PARTIAL,
    REPLAYED,
    OnceAdded,
    PartHeaders,
    create,
    limits,
    refuse_part,
    state,
    take,
)
from streamsvm.service.datasets.views import block_view
from streamsvm.service.errors import ServiceError

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

_RAW_BODY = body_of(files=["application/octet-stream"])
_MADE = {
    **answers("Dataset", 201, "The dataset, whose rows are there"),
    **answers("DatasetSummary", 202, "The file is being read in, or the rest of the upload must follow"),
}
_UPLOAD = "/{name}/uploads/{upload_id}"
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


# `:path`, so that a name with a slash is refused as a wrong name, not as an unknown route.
@router.put("/{name:path}", status_code=201, operation_id="putDataset", openapi_extra=_RAW_BODY, responses=_MADE)
async def put_dataset(
    context: Context,
    request: Request,
    name: str,
    options: InputQuery,
    response: Response,
    part: PartHeaders,
    import_: Annotated[str | None, Query(alias="import", min_length=1, max_length=4096)] = None,
    machines: Annotated[Literal["all"] | PositiveInt | None, Query()] = None,
) -> dict[str, Any]:
    """Read the body in as it arrives: data in any format, plain or compressed with gzip, bzip2, xz, lzma or zstd.

    `import` names a file below the import directory that is read in the background instead of a body, or a URL such as
    s3://bucket/part-*, if the service allows it. `machines` is the number of nodes of a Ray cluster, or "all": each
    node reads and keeps a part of the files of the URL, and jobs on the dataset train there.

    With the header `Upload-Complete` the upload can go on when its connection is lost, see `continueUpload`.
    """
    if import_ is not None:
        response.status_code = 202
        return await run_in_threadpool(context.datasets.begin_import, name, import_, options, machines)
    if machines is not None:
        raise ServiceError("machines_range", "machines read what they import", "Give import=s3://..., and no body.")
    if part.is_last is None:
        chunks = stream(request, context.settings.max_upload_bytes)
        await while_connected(request, context.datasets.upload(name, options, client_of(request.scope), chunks))
    else:
        await create(request, response, context, name, options, part)
    return context.datasets.view(name)


@router.post(
    "/{name}/blocks",
    status_code=201,
    operation_id="appendRows",
    openapi_extra=_RAW_BODY,
    responses=answers("Dataset", 201, "The dataset, with the rows", REPLAYED),
    dependencies=[Depends(refuse_part)],
)
async def append_rows(
    context: Context, name: str, options: InputQuery, response: Response, once: OnceAdded
) -> dict[str, Any]:
    """Add the rows of the body, in any format, to a dataset no unfinished job uses; they make new blocks."""
    return await once.answer(response, name, partial(context.datasets.append, name, options))


@router.get("/{name}/blocks", operation_id="listBlocks", responses=answers("Blocks"))
def list_blocks(context: Context, name: str) -> dict[str, Any]:
    """The blocks of a dataset."""
    return {"blocks": [block_view(block) for block in context.datasets.manifest(name)[1].blocks]}


@router.delete("/{name}/blocks/{block}", status_code=204, operation_id="removeBlock")
def remove_block(context: Context, name: str, block: Annotated[int, Path(ge=0)]) -> Response:
    """Remove the rows of a block from a dataset no unfinished job uses."""
    context.datasets.remove_block(name, block)
    return Response(status_code=204)


@router.get("", operation_id="listDatasets", responses=answers("Datasets"))
def list_datasets(context: Context) -> dict[str, Any]:
    """All datasets, by name."""
    return {"datasets": context.datasets.views()}


@router.get("/{name}", operation_id="getDataset", responses=answers("Dataset | DatasetSummary"))
def get_dataset(context: Context, name: str) -> dict[str, Any]:
    """The contents of a dataset."""
    return context.datasets.view(name)


@router.get("/{name}/sample", operation_id="sampleDataset", responses=answers("Sample"))
def sample_dataset(context: Context, name: str) -> dict[str, Any]:
    """Some rows as they are stored: labels, and strings or features, with their names if the dataset has any."""
    return {"rows": context.datasets.sample(name)}


@router.delete("/{name}", status_code=204, operation_id="deleteDataset")
async def delete_dataset(context: Context, name: str) -> Response:
    """Remove a dataset no unfinished job uses; an upload that is under way is given up."""
    await context.datasets.delete(name)
    return Response(status_code=204)


@router.head(_UPLOAD, status_code=204, operation_id="getUpload", responses=_STATE)
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
    _UPLOAD,
    status_code=201,
    operation_id="continueUpload",
    response_model=None,
    responses=_APPENDED,
    openapi_extra=body_of(files=[PARTIAL]),
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


@router.delete(_UPLOAD, status_code=204, operation_id="cancelUpload")
async def cancel_upload(context: Context, name: str, upload_id: str) -> Response:
    """Give an upload up: nothing of it is left."""
    await context.datasets.resumable.find(name, upload_id).end()
    return Response(status_code=204)
