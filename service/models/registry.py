"""Trained models: made from a finished run, never changed, given out by id."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.jobs.fields.features import asked_maps, planned_maps
from streamsvm.service.jobs.lanes.cross_validation import CrossValidation
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.results import models_of
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.records.ids import new_id
from streamsvm.service.records.store import Store
from streamsvm.service.records.unrecorded import mark, remove, unmark, unrecording
from streamsvm.service.room import Room, RoomFile
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model, read_model, tuples, write_model
from streamsvm.storage.models.model_head import ModelHead, read_head
from streamsvm.storage.models.support_vectors import published_machine
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE, State, open_state
from streamsvm.trainer.solvers import SOLVERS


def lane_outcome(plan: JobPlan, dataset: Path, run: Path, results: Sequence[dict[str, Any]], place: int = 0) -> Model:
    """What a finished run of lanes on the dataset in this directory came to: of the one at a place w, and its result.

    Its labels are the signs, and which rows are meant by them says the lane; but of several classes in one problem.
    """
    state = open_state(run, plan.manifest.n_rows, plan.width, *plan.axes)
    if SOLVERS[plan.spec.solver].has_kernel:
        return _machine(plan, dataset, run, _about(plan, state, results[place]))
    has_bias, w = plan.spec.bias is not None, state.w.reshape(plan.width, -1)
    columns = w[:, : len(plan.labels)].T if _has_classes(plan) else w[:, place]
    w_bias = columns[..., -1].tolist() if has_bias else 0.0
    model = Model(
        w=_in_input_order(plan, dataset, columns),
        labels=plan.model_labels if _has_classes(plan) else (1.0, -1.0) if plan.labels else (),
        index_base=plan.manifest.index_base,
        bias=plan.spec.bias,
        w_bias=tuples(w_bias),
        about=_about(plan, state, results[place]),
        maps=asked_maps(plan.spec, Dataset(dataset)),
    )
    is_plain = plan.manifest.own_width and not plan.spec.features
    return _without_others(model, plan.manifest.width - plan.manifest.listed) if is_plain else model


def _without_others(model: Model, begin: int) -> Model:
    """Leave out features below `begin` that have no weight: they may never have come."""
    assert model.maps is not None and model.maps.listed is not None
    features = model.maps.listed
    kept = (features >= begin) | np.any(np.atleast_2d(model.w) != 0.0, axis=0)
    if kept.all():
        return model
    maps = listed_maps(model.n_features, model.index_base, features[kept])
    return replace(model, w=np.ascontiguousarray(model.w[..., kept]), maps=maps)


def _about(plan: JobPlan, state: State, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "result": result,
        "elapsed_seconds": state.control["elapsed_seconds"],
        "job_passes": plan.passes_before + int(state.control["finished_passes"]),
    }


def _machine(plan: JobPlan, dataset: Path, run: Path, about: dict[str, Any]) -> Model:
    machine, own = published_machine(run), Dataset(dataset)
    told = {
        **json.loads((run / RUN_FILE).read_bytes())["distances"],
        "support_vectors": len(machine.vectors),
        "merges": machine.merges,
        "weight_degradation": machine.degradation,
    }
    vectors = machine.vectors
    return Model(
        w=machine.beta,
        labels=(1.0, -1.0),
        index_base=plan.manifest.index_base,
        about={**about, "result": {**about["result"], "machine": told}},
        vectors=vectors.renumbered(own.numbers[vectors.indices], own.manifest.input_width),
    )


def _has_classes(plan: JobPlan) -> bool:
    """Whether a lane has a decision value for each class. Of two classes those of the second are minus the first's."""
    return plan.spec.is_joint and len(plan.labels) > 2


def _in_input_order(plan: JobPlan, dataset: Path, w: Array) -> Array:
    """w (..., width) in the order of the input's features, (..., n_features); with maps in that of those they make."""
    own, base = Dataset(dataset), plan.manifest.index_base
    maps = planned_maps(plan.spec, plan.manifest)
    end = maps.width - (plan.spec.bias is not None)
    # A model that carries maps has a weight for each feature that they make.
    begin = 0 if plan.spec.features or plan.manifest.own_width else base
    rows = [np.ascontiguousarray(row[:end]) for row in np.atleast_2d(w)]
    if maps.keeps_numbers:
        rows = [own.in_input_order(row) for row in rows]
    return np.stack([row[begin:] for row in rows]).reshape(*w.shape[:-1], -1)


def publish_models(
    settings: Settings,
    dataset_id: str,
    plan: JobPlan,
    n_done: int,
    outcome_of: Callable[[int], Model],
    folds: CrossValidation | None,
) -> list[dict[str, Any]]:
    """Make the models of a job on this dataset durable, see `models_of`.

    Returns their values of C and the ids under which they are to be recorded; then `settle_models`.
    The files name no job and no time: the same runs make the same bytes.
    """
    about = {"dataset": {"name": plan.spec.dataset, "uid": plan.manifest.uid}, **input_about(plan.manifest)}
    published: list[dict[str, Any]] = []
    try:
        for C, model in models_of(plan, n_done, outcome_of, about, folds, settings.models):
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
