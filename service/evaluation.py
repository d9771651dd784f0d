"""How good a model is on a dataset: a process of its own, which gives way to training.

    python -m service.evaluation MODEL_DIRECTORY DATASET_DIRECTORY

Prints one JSON object: the evaluation, or `{"problem": ...}` with exit code 1. Takes eight bytes a row of disk beside
the dataset, and of memory three times the weights.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reader.evaluation import Applied, ClassificationPass, EvaluationPass, RegressionPass
from reader.stream import Examples, Shuffled, Streamer
from service.errors import ServiceError, needing_space
from storage.child import die_with_parent
from storage.cores import usable_cores
from storage.csr import Array
from storage.dataset import Dataset, Manifest
from storage.errors import StorageError
from storage.model_file import Model, read_model
from storage.objective import Objective, make_objective

_NICE = 10
_NAP_SECONDS = 2e-3


def evaluate(model: Model, dataset: Dataset) -> dict[str, Any]:
    """What the model is worth on the dataset, as `POST /v1/models/{id}/evaluate` shows it.

    Raises ServiceError: label_mismatch or index_base_mismatch for a dataset the model is not made for, out_of_space.
    """
    manifest = dataset.manifest
    _check(model, manifest)
    applied = _applied(model, dataset)
    if model.is_regression:
        regression = RegressionPass(applied)
        _stream(dataset, regression, None)
        errors = {"mean_squared_error": regression.mean_squared_error, "r_squared": regression.r_squared}
        return _view(model, manifest, regression, errors)
    with _scores(manifest.n_rows, dataset.directory.parent) as scores:
        classes = ClassificationPass(applied, scores, manifest.labels.get(model.labels[0], 0))
        _stream(dataset, classes, model.labels[0])
        confusion = {"labels": model.labels, "rows": classes.confusion}
        figures = {"accuracy": classes.accuracy, "auc": classes.auc(), "confusion": confusion}
        return _view(model, manifest, classes, figures)


def _stream(dataset: Dataset, evaluation: EvaluationPass, positive: float | None) -> None:
    """Show the pass all rows."""
    streamer = Streamer(Examples(positive, None, dataset.manifest.width), lambda: time.sleep(_NAP_SECONDS))
    threads = usable_cores() - 1
    for streamed in streamer.stream(Shuffled(dataset), 0, 0, evaluation.look, threads):
        evaluation.add(streamed.rows, streamed.found)


def _check(model: Model, manifest: Manifest) -> None:
    named = dict(enumerate(manifest.label_names))
    names = [named[int(label)] for label in model.labels if label in named]
    if names != list(model.about.get("label_names", ())) or (named and model.is_regression):
        raise ServiceError(
            "label_mismatch",
            "labels of the dataset are strings, and not those the model was trained with, in the same order",
            "Add the rows to the dataset that the model was trained on.",
        )
    # Where labels are not counted they are very many.
    labels = manifest.labels or manifest.label_range
    strange = [label for label in labels if label not in model.labels]
    if strange and not model.is_regression:
        known = " and ".join(f"{label:g}" for label in model.labels)
        raise ServiceError(
            "label_mismatch",
            f"the dataset has rows labelled {strange[0]:g}, the model's labels are {known}",
            "Give the dataset the labels that the model was trained with.",
        )
    if manifest.index_base < model.index_base:
        raise ServiceError(
            "index_base_mismatch",
            "the dataset has a feature 0, the model's features start at 1",
            "Number the features as in the data that the model was trained on.",
        )


def _objective(model: Model) -> Objective | None:
    """That of the model's job; None if the model does not say it."""
    if "C" not in model.about:
        return None
    spec = model.about.get("spec", {})
    names = dict(zip(model.about.get("label_names", ()), model.labels, strict=False))
    weights = (spec.get("class_weight") or {}).items()
    factors = {names[label] if names else float(label): weight for label, weight in weights}
    # Regression has neither labels nor weights of them.
    C_positive, C_negative = (model.about["C"] * factors.get(label, 1.0) for label in model.labels or (0.0, 0.0))
    return make_objective(model.about["loss"], C_positive, C_negative, spec.get("epsilon", 0.0))


def _applied(model: Model, dataset: Dataset) -> Applied:
    """The model with its features numbered as in the dataset."""
    width, begin = dataset.manifest.width, model.index_base
    end = min(begin + len(model.w), width)
    w, known = np.zeros(width), np.zeros(width, bool)
    w[begin:end], known[begin:end] = model.w[: end - begin], True
    unknown = None if known[dataset.manifest.index_base :].all() else dataset.in_own_order(~known)
    return Applied(dataset.in_own_order(w), model.intercept, unknown, _objective(model))


@contextmanager
def _scores(n_rows: int, directory: Path) -> Iterator[Array]:
    """Room for a number a row, in a file: the kernel may take the memory back."""
    with tempfile.TemporaryFile(dir=directory) as file:
        with needing_space():
            os.posix_fallocate(file.fileno(), 0, n_rows * np.dtype(float).itemsize)
        yield np.memmap(file, float, "r+", shape=(n_rows,))


def _view(model: Model, manifest: Manifest, found: EvaluationPass, figures: dict[str, Any]) -> dict[str, Any]:
    norm = float(model.w @ model.w) + model.w_bias**2
    return {
        "rows": manifest.n_rows,
        **figures,
        "objective": norm / 2 + found.losses if "C" in model.about else None,
        "unknown_features": found.unknown_features,
    }


def main(model: Path, dataset: Path) -> int:
    """Body of the process."""
    die_with_parent()
    os.nice(_NICE)
    try:
        print(json.dumps(evaluate(read_model(model), Dataset(dataset))))
    except ServiceError as error:
        print(json.dumps({"problem": error.problem()}))
        return 1
    except StorageError as error:
        print(json.dumps({"problem": ServiceError(error.code, error.message, error.hint).problem()}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
