"""/v1/datasets"""

from typing import Any

from fastapi import APIRouter, Request, Response

from api.body import stream
from api.context import Context
from api.input_options import InputQuery
from service.views import dataset_view

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

_RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


# A name with a slash in it is a wrong name, not another route.
@router.put("/{name:path}", status_code=201, operation_id="putDataset", openapi_extra=_RAW_BODY)
async def put_dataset(
    context: Context,
    request: Request,
    name: str,
    options: InputQuery,
) -> dict[str, Any]:
    """Read the body in as it arrives: data in any format, plain or compressed with gzip, bzip2, xz or zstd."""
    upload = await context.datasets.begin_upload(name, options)
    try:
        async for chunk in stream(request, context.settings.max_upload_bytes):
            if not await upload.feed(chunk):
                break
        await upload.finish()
    except BaseException:
        await upload.abandon()
        raise
    return dataset_view(*context.datasets.manifest(name))


@router.get("", operation_id="listDatasets")
def list_datasets(context: Context) -> dict[str, Any]:
    """All datasets, by name."""
    return {"datasets": [dataset_view(record, None) for record in context.store.datasets()]}


@router.get("/{name}", operation_id="getDataset")
def get_dataset(context: Context, name: str) -> dict[str, Any]:
    """What a dataset holds."""
    record = context.store.dataset(name)
    manifest = context.datasets.manifest(name)[1] if record["state"] == "ready" else None
    return dataset_view(record, manifest)


@router.delete("/{name}", status_code=204, operation_id="deleteDataset")
def delete_dataset(context: Context, name: str) -> Response:
    """Remove a dataset no unfinished job uses."""
    context.datasets.delete(name)
    return Response(status_code=204)
