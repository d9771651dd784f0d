"""Trained models: made from a finished run, kept for ever, given out by id."""

from pathlib import Path
from typing import Any

import numpy as np

from service.ids import new_id
from service.problem import JobPlan
from service.settings import Settings
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
        labels=(plan.positive, plan.negative),
        index_base=plan.manifest.index_base,
        bias=plan.spec.bias,
        w_bias=float(state.w[plan.width - 1]) if plan.spec.bias is not None else 0.0,
        about={**about, "loss": plan.spec.loss, "C": plan.spec.C, "solver": plan.spec.solver},
    )


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
