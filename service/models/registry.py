"""Trained models: published when a job has ended, never changed, given out by id."""

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from streamsvm.service.jobs.outcome.outcome import Outcome
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.records.ids import new_id
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark, unrecording
from streamsvm.service.room import Room, RoomFile
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import Model, read_model, write_model
from streamsvm.storage.models.model_head import ModelHead, read_head


def publish_models(settings: Settings, dataset_id: str, outcome: Outcome) -> list[dict[str, Any]]:
    """Make the models of a job on this dataset durable, see `Outcome.models`.

    Returns their values of C and the ids under which they are to be recorded; then `settle_models`.
    The files name no job and no time: the same runs make the same bytes.
    """
    plan = outcome.plan
    about = {"dataset": {"name": plan.spec.dataset, "uid": plan.manifest.uid}, **input_about(plan.manifest)}
    published: list[dict[str, Any]] = []
    try:
        for C, model in outcome.models(about, settings.models):
            published.append({"C": C, "model_id": new_id("mdl")})
            directory = settings.models / published[-1]["model_id"]
            mark(directory)
            write_model(directory, with_heaviest(model, settings.datasets / dataset_id))
    except BaseException:
        unpublish_models(settings, published)
        raise
    return published


def settle_models(settings: Settings, published: Iterable[dict[str, Any]]) -> None:
    """They are on record."""
    for each in published:
        unmark(settings.models / each["model_id"])


def unpublish_models(settings: Settings, published: Iterable[dict[str, Any]]) -> None:
    """Remove models that are on no record."""
    for each in published:
        remove(settings.models / each["model_id"])


def load_model(settings: Settings, model_id: str) -> Model:
    """A recorded model."""
    return read_model(settings.models / model_id)


def load_head(settings: Settings, model_id: str) -> ModelHead:
    """The head of a recorded model: all but its weights."""
    return read_head(settings.models / model_id)


def model_file(
    settings: Settings, record: dict[str, Any], format_: str | None, room: Room, client: str
) -> tuple[str, RoomFile]:
    """The format, and a recorded model as a file of it, one without a name; its time is that of the model.

    format_: None: text, LIBLINEAR's or LIBSVM's, but npz of listed features: the text has a line for each number that
    there may be. The file is made anew from checked weights each time, so that a copy
    can never go bad. Raises ModelFormatError, or ServiceError answer_too_large, out_of_space.
    """
    model = load_model(settings, record["id"])
    format_ = format_ or _usual_format(model)
    written = MODEL_FORMATS[format_].write(model)
    file = room.file(client)  # the caller closes it
    try:
        file.writelines(written)
        made = datetime.fromisoformat(record["created_at"]).timestamp()
        os.utime(file.fileno(), (made, made))
    except BaseException:
        file.close()
        raise
    return format_, file


def _usual_format(model: Model) -> str:
    if model.vectors is not None:
        return "libsvm"
    return "liblinear" if model.maps is None or model.maps.listed is None else "npz"


def delete_model(settings: Settings, store: Store, model_id: str) -> None:
    """Forget a model and remove its files."""
    directory = settings.models / store.model(model_id)["id"]
    with unrecording(directory):
        store.delete_model(model_id)
    remove(directory)
