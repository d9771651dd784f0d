"""Makes models of finished runs, stores, describes and exports them by id. A stored model never changes."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from streamsvm.service.datasets.views import input_view
from streamsvm.service.errors import ModelFormatError, needing_space
from streamsvm.service.jobs.lanes.outcome import Outcome
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import formats_for
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.models.predicting.applied import with_mean
from streamsvm.service.models.threshold import cut_at
from streamsvm.service.records.database import new_id, now
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark, unrecording
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Room, RoomFile
from streamsvm.storage.features.rows import read_statistics
from streamsvm.storage.models.model_file import ModelHead, read_head, read_model, write_model

_ABOUT = ("dataset", "spec", "converged", "stop_reason", "passes", "certificate", "score", "heaviest", "threshold")


def model_view(record: dict[str, Any], model: ModelHead) -> dict[str, Any]:
    """Describe a model: its record, its head, and the formats that can hold it, the default of a download first."""
    has_kernel, maps = model.n_vectors is not None, [each["name"] for each in model.maps]
    return {
        **record,
        "features": model.n_features,
        "labels": model.labels,
        "index_base": model.index_base,
        "bias": model.bias,
        "maps": list(model.maps),
        "kernel": "rbf" if has_kernel else "linear",
        "gamma": model.gamma,
        "support_vectors": model.n_vectors,
        "probability": model.probability,
        "formats": formats_for(model.labels, has_kernel, maps, model.bias, model.is_listed),
        "input": model.about.get("input") and input_view(model.about["input"]),
        **{key: model.about.get(key) for key in _ABOUT},
    }


def publish_models(settings: Settings, dataset_id: str, outcome: Outcome) -> list[dict[str, Any]]:
    """Write the models of a job (see `Outcome.models`) to disk; return the C and the new id of each model.

    The caller records the ids, then calls `settle_models`; or `unpublish_models`, to remove the files.
    The files contain no job and no time, so that the same run writes the same bytes.
    """
    plan = outcome.plan
    about = {"dataset": {"name": plan.spec.dataset, "uid": plan.manifest.uid}, **input_about(plan.manifest)}
    published: list[dict[str, Any]] = []
    dataset = settings.datasets / dataset_id
    statistics = read_statistics(dataset)
    try:
        for C, model in outcome.models(about, settings.models):
            published.append({"C": C, "model_id": new_id("mdl")})
            directory = settings.models / published[-1]["model_id"]
            mark(directory)
            write_model(directory, with_heaviest(with_mean(model, statistics, plan.manifest), dataset))
    except BaseException:
        unpublish_models(settings, published)
        raise
    return published


def settle_models(settings: Settings, published: Iterable[dict[str, Any]]) -> None:
    """Unmark the directories of models that are recorded now, so that no clean-up removes them."""
    for each in published:
        unmark(settings.models / each["model_id"])


def unpublish_models(settings: Settings, published: Iterable[dict[str, Any]]) -> None:
    """Remove the files of models that will not be recorded."""
    for each in published:
        remove(settings.models / each["model_id"])


def cut_model(settings: Settings, store: Store, reference: str, threshold: float) -> dict[str, Any]:
    """Publish the model that cuts another model's decision values at a threshold; return its description.

    Raises ServiceError unknown_model, unknown_alias, threshold_range, out_of_space.
    """
    record = store.model(reference)
    model = cut_at(read_model(settings.models / record["id"]), threshold)
    directory = settings.models / new_id("mdl")
    mark(directory)
    try:
        with needing_space():
            write_model(directory, model)
        store.adopt_model(directory.name, now(), record["job_id"])
    except BaseException:
        remove(directory)
        raise
    unmark(directory)
    return model_view(store.model(directory.name), read_head(directory))


def model_bytes(settings: Settings, model_id: str) -> int:
    """Return the bytes of a model's files; 0 if the model has been deleted."""
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in (settings.models / model_id).iterdir())
    return 0


def model_file(
    settings: Settings, record: dict[str, Any], format_: str | None, room: Room, client: str
) -> tuple[str, RoomFile]:
    """Write a recorded model to an unnamed file, dated as the model; return the format and the file.

    format_  a name in MODEL_FORMATS; None: the first format that can hold the model, see `formats_for`
    The file is written anew from checked weights at each call: no stored copy can go bad.
    The caller closes the file. Raises ModelFormatError, or ServiceError answer_too_large, out_of_space.
    """
    directory = settings.models / record["id"]
    model, formats = read_model(directory), model_view(record, read_head(directory))["formats"]
    format_ = format_ or formats[0]
    try:
        pieces = MODEL_FORMATS[format_].write(model)
    except ModelFormatError as error:
        error.hint = f"these formats hold the model: {', '.join(f'format={each}' for each in formats)}"
        raise
    file = room.file(client)
    try:
        file.writelines(pieces)
        created = datetime.fromisoformat(record["created_at"]).timestamp()
        os.utime(file.fileno(), (created, created))
    except BaseException:
        file.close()
        raise
    return format_, file


def delete_model(settings: Settings, store: Store, model_id: str) -> None:
    """Delete a model's record and its files; `model_id` may be any reference. Raises ServiceError `model_in_use`."""
    directory = settings.models / store.model(model_id)["id"]
    with unrecording(directory):
        store.delete_model(directory.name)
    remove(directory)
