"""Makes the model of one lane from the files of its run."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.jobs.fields.features import asked_maps
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import has_leading_bias
from streamsvm.service.jobs.progress.progress import made
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.bias import with_bias_last
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model, tuples
from streamsvm.storage.models.support_vectors import published_machine
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE, State, open_state


def lane_outcome(plan: JobPlan, dataset: Path, run: Path, results: Sequence[dict[str, Any]], place: int = 0) -> Model:
    """The model of the lane at a place of a finished run on the dataset in this directory, with its result in `about`.

    Its labels are +1 and -1, and the lane says which class is +1. If all classes are one problem, they are the data's.
    """
    state = open_state(run, plan.manifest.n_rows, plan.width, *plan.axes)
    if plan.solver.has_kernel:
        return _machine(plan, dataset, run, _about(plan, state, results[place]))
    has_bias, w = plan.spec.bias is not None, _bias_last(run, state.w).reshape(plan.width, -1)
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


def _bias_last(run: Path, w: Array) -> Array:
    """w (width, tasks) of a run, with the weight of the constant feature at the end."""
    return with_bias_last(w) if has_leading_bias(run) else w


def _without_others(model: Model, begin: int) -> Model:
    """Leave out features below `begin` whose weight is 0: perhaps the data do not have them."""
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
        "run": plan.number,
        "made": made(state.control),
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
    maps = plan.maps
    end = maps.width - (plan.spec.bias is not None)
    # A model that carries maps has a weight for each feature that they make.
    begin = 0 if plan.spec.features or plan.manifest.own_width else base
    rows = [np.ascontiguousarray(row[:end]) for row in np.atleast_2d(w)]
    if maps.keeps_numbers:
        # Constant features that maps append come after all others, also in the input's order.
        width = plan.manifest.width
        rows = [np.concatenate([own.in_input_order(row[:width]), row[width:]]) for row in rows]
    return np.stack([row[begin:] for row in rows]).reshape(*w.shape[:-1], -1)
