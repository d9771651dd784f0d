"""Trained models: made from a finished run, never changed, given out by id."""

import functools
import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from service.errors import needing_space
from service.exports import MODEL_FORMATS
from service.ids import new_id
from service.predictor import Predictor
from service.problem import JobPlan
from service.settings import Settings
from service.store import Store
from storage.csr import Array
from storage.dataset import Dataset
from storage.model_file import Model, read_model, write_model
from storage.state import open_state


def final_model(plan: JobPlan, dataset: Path, run: Path, about: dict[str, Any]) -> Model:
    """The model in the state files of a finished run on the dataset in this directory."""
    state = open_state(run, plan.manifest.n_rows, plan.width)
    w = Dataset(dataset).in_input_order(state.w[: plan.manifest.width])
    features: Array = w[plan.manifest.index_base :]
    return Model(
        w=np.array(features),
        labels=plan.labels,
        index_base=plan.manifest.index_base,
        bias=plan.spec.bias,
        w_bias=float(state.w[plan.width - 1]) if plan.spec.bias is not None else 0.0,
        about={**about, **_names(plan), "loss": plan.spec.loss, "C": plan.spec.C, "solver": plan.spec.solver},
    )


def _names(plan: JobPlan) -> dict[str, Any]:
    """Of labels that are strings: the model's own are their numbers."""
    names = plan.manifest.label_names
    return {"label_names": [names[int(label)] for label in plan.labels]} if names else {}


def publish_model(settings: Settings, plan: JobPlan, dataset: Path, run: Path, result: dict[str, Any]) -> str:
    """Make the model of a finished run on the dataset in this directory durable.

    Returns the id under which it is to be recorded.
    The files name no job and no time: the same run makes the same bytes.
    """
    model_id = new_id("mdl")
    about = {
        "dataset": {"name": plan.spec.dataset, "uid": plan.manifest.uid},
        "spec": plan.spec.model_dump(),
        **result,
    }
    write_model(settings.models / model_id, final_model(plan, dataset, run, about))
    return model_id


def load_model(settings: Settings, model_id: str) -> Model:
    """A recorded model."""
    return read_model(settings.models / model_id)


@functools.lru_cache(maxsize=4)
def load_predictor(settings: Settings, model_id: str) -> Predictor:
    """A recorded model, ready to be applied. It never changes: the last few asked for are kept."""
    return Predictor(load_model(settings, model_id))


def model_file(settings: Settings, record: dict[str, Any], format_: str) -> IO[bytes]:
    """A recorded model as a file of a format, one without a name; its time is that of the model.

    It is made anew from checked weights each time, so that a copy can never go bad. Raises ModelFormatError, or
    ServiceError out_of_space.
    """
    written = MODEL_FORMATS[format_].write(load_model(settings, record["id"]))
    file: IO[bytes] = tempfile.TemporaryFile(dir=settings.data_dir)  # noqa: SIM115 - the caller closes it
    try:
        with needing_space():
            file.writelines(written)
            file.flush()
        made = datetime.fromisoformat(record["created_at"]).timestamp()
        os.utime(file.fileno(), (made, made))
    except BaseException:
        file.close()
        raise
    return file


def delete_model(settings: Settings, store: Store, model_id: str) -> None:
    """Forget a model and remove its files."""
    store.delete_model(model_id)
    shutil.rmtree(settings.models / model_id, ignore_errors=True)
