"""/v1/datasets"""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import PositiveInt

from streamsvm.api.access.auth import client_of
from streamsvm.api.answers import answers, body_of
from streamsvm.api.context import Context
from streamsvm.api.requests.body import InputQuery, stream
from streamsvm.api.requests.leaving import while_connected
from streamsvm.api.requests.repeated import REPLAYED, OnceAdded, PartHeaders, create, refuse_part
from streamsvm.service.datasets.views import block_view
from streamsvm.service.errors import ServiceError

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

_RAW_BODY = body_of(files=["application/octet-stream"])
_MADE = {
    **answers("Dataset", 201, "The dataset, whose rows are there"),
    **answers("DatasetSummary", 202, "The file is being read in, or the rest of the upload must follow"),
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
