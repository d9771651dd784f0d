"""/datasets/{name}: a page that shows the contents of a dataset and some of its rows."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import AppContext, Context
from streamsvm.api.pages.render import missing_page, page
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.service.datasets.views import block_view
from streamsvm.service.errors import ServiceError
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError

router = APIRouter(include_in_schema=False)

_MOST_LABELS = 20
_HAS_BLOCKS = ("ready", "changing")


@router.get("/datasets/{name}", operation_id="showDataset")
def show_dataset(context: Context, request: Request, name: str) -> HTMLResponse:
    """Show labels, blocks, lengths of rows, frequent features, and the lines that were rejected."""
    try:
        dataset = context.datasets.view(name)
        blocks = _blocks(context, name)
    except (ServiceError, StorageError) as error:
        return missing_page(request, error)
    names = _names(context, name, dataset)
    labels = sorted(dataset.get("label_counts", {}).items(), key=lambda label: -label[1])
    return page(
        request,
        "dataset.html",
        dataset=dataset,
        labels=labels[:_MOST_LABELS],
        more_labels=labels[_MOST_LABELS:],
        blocks=blocks,
        names=names,
        sample=_sample(context, name, dataset),
    )


def _names(context: AppContext, name: str, dataset: dict[str, Any]) -> dict[int, str]:
    """Map the numbers of the most frequent features to their names, where features have names."""
    frequent = {each["feature"] for each in (dataset.get("profile") or {}).get("frequent_features", ())}
    if not (frequent and dataset["input"]):
        return {}
    manifest = read_manifest(context.datasets.directory(context.store.dataset(name)["id"]))
    return feature_names(manifest.input, frequent, manifest.index_base)


def _sample(context: AppContext, name: str, dataset: dict[str, Any]) -> list[dict[str, Any]]:
    """Return some rows; none while the dataset changes or if it cannot be read, so that the page shows the rest."""
    try:
        return context.datasets.sample(name) if dataset["state"] == "ready" else []
    except (ServiceError, StorageError):
        return []


def _blocks(context: AppContext, name: str) -> list[dict[str, Any]]:
    record = context.store.dataset(name)
    if record["state"] not in _HAS_BLOCKS:
        return []
    return [block_view(block) for block in read_manifest(context.datasets.directory(record["id"])).blocks]
