"""Submits a prediction of files or of a dataset, and describes it as JSON."""

from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.service.cluster.dataset.shards import check_here
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.progress import read_json
from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.predictions.dataset_rows import check_fits
from streamsvm.service.predictions.request import outputs_of
from streamsvm.service.predictions.spec import PredictionSpec, check_free, destination_of, sources_of
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import RequestKey
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.models.model_file import Model

PROGRESS = "progress.json"
_PROGRESS = ("rows", "bytes", "total_bytes")


def submit(store: Store, settings: Settings, spec: PredictionSpec, key: RequestKey | None) -> str:
    """Queue a prediction with the model that `spec.model` means now; return the prediction's id.

    Raises ServiceError for a model, source, destination or output that does not exist, is not allowed or does not fit,
    and destination_exists, queue_full.
    """
    model_id = store.model(spec.model)["id"]
    predictor = load_predictor(settings, model_id)
    outputs_of(predictor, spec.outputs)
    dataset_id = None if spec.dataset is None else _fitting_dataset(store, settings, spec.dataset, predictor.model)
    try:
        if spec.source is not None:
            sources_of(settings, spec.source)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None
    check_free(spec, destination_of(settings, spec.destination))
    fields = spec.model_dump(by_alias=True)
    return store.add_prediction(model_id, fields, settings.max_queued_jobs, key, dataset_id)


def _fitting_dataset(store: Store, settings: Settings, name: str, model: Model) -> str:
    """Return the dataset's id. Raises ServiceError unless it is ready, on this machine, and fits the model."""
    record = store.dataset(name)
    if record["state"] != "ready":
        raise ServiceError("not_ready", f"dataset {name} is not ready: {record['state']}")
    manifest = read_manifest(settings.datasets / record["id"])
    check_here(manifest)
    check_fits(model, manifest)
    return record["id"]


def prediction_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction as the API shows it; `progress` is that of the current attempt, or the final one."""
    names = ("id", "model_id", "state", "attempt", "created_at", "started_at", "finished_at", "requested")
    shown = {name: record[name] for name in names}
    result = _figures(record["result"])
    return {
        **shown,
        "spec": record["spec"],
        "progress": _figures(result or _progress(settings.predictions / record["id"]), _PROGRESS),
        "result": result,
        "failure": record["failure"],
    }


def _figures(found: Any, names: tuple[str, ...] = (*_PROGRESS, "unknown_features")) -> dict[str, Any] | None:
    """Return the figures of these names in `found`; None if one is missing, as in a damaged record."""
    is_whole = isinstance(found, dict) and all(isinstance(found.get(name), int) for name in names)
    return {name: found[name] for name in names} if is_whole else None


def _progress(directory: Path) -> Any:
    try:
        return read_json((directory / PROGRESS).read_text())
    except (OSError, ValueError):
        return None
