"""Submits a prediction of files, and shows it."""

from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.progress import read_json
from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.predictions.request import outputs_of
from streamsvm.service.predictions.spec import PredictionSpec, destination_of, sources_of
from streamsvm.service.records.keys import RequestKey
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings

PROGRESS = "progress.json"


def submit(store: Store, settings: Settings, spec: PredictionSpec, key: RequestKey | None) -> str:
    """Queue a prediction with the model that its reference means now; returns its id.

    Raises ServiceError for a model, source, destination or output that is not there or not allowed, destination_exists,
    queue_full.
    """
    model_id = store.model(spec.model)["id"]
    outputs_of(load_predictor(settings, model_id), spec.outputs)
    try:
        sources_of(settings, spec.source)
    except InputError as error:
        raise ServiceError.of(error.problem()) from None
    path = Path(destination_of(settings, spec.destination))
    if not spec.overwrite and "://" not in spec.destination and path.exists():
        raise ServiceError(
            "destination_exists", "there is such a file already", 'Choose another, or "overwrite": true.'
        )
    return store.add_prediction(model_id, spec.model_dump(by_alias=True), settings.max_queued_jobs, key)


def prediction_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """A prediction as the service shows it; `progress` is that of the running attempt, or of the end."""
    names = ("id", "model_id", "state", "attempt", "created_at", "started_at", "finished_at", "requested")
    shown = {name: record[name] for name in names}
    progress = record["result"] or _progress(settings.predictions / record["id"])
    return {
        **shown,
        "spec": record["spec"],
        "progress": progress and {name: progress[name] for name in ("rows", "bytes", "total_bytes")},
        "result": record["result"],
        "failure": record["failure"],
    }


def _progress(directory: Path) -> dict[str, Any] | None:
    try:
        return read_json((directory / PROGRESS).read_text())
    except (OSError, ValueError):
        return None
