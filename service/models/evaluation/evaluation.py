"""Evaluates a model on a dataset, in a process of low priority (`nice`), so that training comes first; or on files.

    python -m streamsvm.service.models.evaluation.evaluation MODEL_DIRECTORY DATASET_DIRECTORY [CURVES [THRESHOLD]]

Prints one JSON object: the evaluation, or `{"problem": ...}` with exit code 1. The disk of the dataset needs eight
bytes a row, sixteen if rows have weights. Memory is three times the weights; for a kernel machine, eight bytes times
the number of vectors times the number of features that occur in them.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.certificate.evaluation import (
    Applied,
    BinaryPass,
    ClassificationPass,
    EvaluationPass,
    RegressionPass,
)
from streamsvm.reader.certificate.metrics import WEIGHTED
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import OF_FRAMES, InputOptions
from streamsvm.reader.parsers.text.hashed_text import as_input
from streamsvm.reader.stream.piece_sources import Shuffled, Streamer
from streamsvm.service.errors import ServiceError, needing_space, refusing
from streamsvm.service.models.predicting.answers import first_names, shown_label
from streamsvm.service.models.predicting.applied import Mapped
from streamsvm.service.models.predicting.input_match import Matched, match_dataset
from streamsvm.service.models.threshold import check_two_classes, threshold_by
from streamsvm.service.processes.run_directories import temporary_directory
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.arrays import scratch
from streamsvm.storage.machine.child import die_with_parent
from streamsvm.storage.machine.resources import usable_cores
from streamsvm.storage.models.decision import KernelMachine, decision_values, squared_norm
from streamsvm.storage.models.model_file import Label, Model, read_model
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.losses import crammer_singer, make_loss
from streamsvm.trainer.problem.losses.terms import RowTerms
from streamsvm.trainer.problem.row_encoder import RowEncoder

_OF_TABLE = ("categorical", "missing", "categories", "n_features", "columns")


def evaluate_rows(
    model: Model, rows: Iterable[bytes] | SourceInput, options: InputOptions, curves: bool = False, threshold: str = ""
) -> dict[str, Any]:
    """Compute the figures of `evaluate` for rows that are not yet parsed. Raises InputError, and as `evaluate` does.

    options  options that differ from their defaults apply; the others are as in training
    """
    with temporary_directory(None, "streamsvm-evaluate-") as work:
        as_trained = replace(options_as_trained(model, options), shuffle="no")  # doubtful rows are those of the input
        ingest(rows, work / "dataset", as_trained, InputLimits())
        return evaluate(model, Dataset(work / "dataset"), curves, threshold)


def options_as_trained(model: Model, options: InputOptions) -> InputOptions:
    """Fill in the options that were not given with those by which the rows of training were made."""
    input_ = model.about.get("input") or {}
    options = replace(options, trained=input_)
    has_words = any(isinstance(label, str) for label in model.labels)
    # Booleans of a frame are numbers to a model of numbers; LIBSVM text has no such option.
    if has_words or (options.format == OF_FRAMES and options.label_type == "auto"):
        options = replace(options, label_type="string" if has_words else "number")
    if input_.get("format") == "text":
        return as_input(options, input_)
    if "columns" not in input_:
        return options
    known = {name: input_[name] for name in _OF_TABLE if input_.get(name)}
    if not input_["has_names"]:
        known.pop("columns")
    return replace(options, **{name: value for name, value in known.items() if name not in options.given})


_Losses = Callable[[Segment, Array], float]
_NICE = 10
_NAP_SECONDS = 2e-3
_LABELS_SHOWN = 10


def evaluate(model: Model, dataset: Dataset, curves: bool = False, threshold: str = "") -> dict[str, Any]:
    """Compute the figures that `POST /v1/models/{id}/evaluate` answers with.

    curves     whether, with two classes, points of curves are among them
    threshold  a rule by which `threshold` is chosen on these rows, see `threshold_by`; "": none is

    Where rows have weights, every figure is weighted. Raises ServiceError label_mismatch or index_base_mismatch if
    labels or features are not the model's, input_mismatch if rows were made in another way, out_of_space.
    """
    if threshold:
        check_two_classes(model)
    manifest = dataset.manifest
    labels = _codes(model, manifest)
    _check(model, labels, manifest)
    matched = match_dataset(model, manifest)
    applied, left_out = _applied(model, dataset, matched), matched.unknown_columns
    unknown = {"unknown_columns": {"count": len(left_out), "names": first_names(left_out)}} if left_out else {}
    if model.is_regression:
        regression = RegressionPass(applied)
        _stream(dataset, regression, RowEncoder(is_regression=True))
        return _view(model, manifest, regression, regression.errors.figures() | unknown)
    encoder = RowEncoder(labels.tolist())
    if model.is_multiclass:
        several = ClassificationPass(applied, len(model.labels), model.probability)
        _stream(dataset, several, encoder)
        return _view(model, manifest, several, _class_figures(model, several) | unknown)
    score_type = WEIGHTED if applied.is_weighted else np.dtype(float)
    # The scores are in a file, whose pages the kernel can evict when memory is short.
    with needing_space():
        scores = scratch(dataset.directory.parent, score_type, manifest.n_rows)
    n_positive = manifest.labels.get(float(labels[0]), 0)
    two = BinaryPass(applied, model.probability, scores, n_positive)
    _stream(dataset, two, encoder)
    ranking = two.ranking()
    drawn: dict[str, Any] = {"curves": ranking.curves()} if curves else {}
    if threshold:
        drawn["threshold"] = threshold_by(threshold, ranking)
    return _view(model, manifest, two, {**_class_figures(model, two), **ranking.figures(), **drawn, **unknown})


def _class_figures(model: Model, classes: ClassificationPass) -> dict[str, Any]:
    counts = classes.counts
    by_class = zip(model.labels, counts.by_class(), strict=True)
    confusion = None if counts.confusion is None else counts.confusion.tolist()
    doubtful = [
        {"row": row, "label": model.labels[y], "predicted": model.labels[predicted], "lead": lead}
        for lead, row, y, predicted in classes.doubtful.rows
    ]
    return {
        **counts.figures(),
        "confusion": {"labels": model.labels, "rows": confusion},
        "classes": [{"label": label, **figures} for label, figures in by_class],
        "doubtful": doubtful,
        **({} if classes.calibration is None else classes.calibration.figures()),
    }


def _stream(dataset: Dataset, evaluation: EvaluationPass, encoder: RowEncoder) -> None:
    """Stream all rows of the dataset through the evaluation pass."""
    streamer = Streamer(encoder, lambda: time.sleep(_NAP_SECONDS))
    threads = usable_cores() - 1
    for streamed in streamer.stream(Shuffled(dataset), 0, 0, evaluation.look, threads):
        evaluation.add(streamed.rows, streamed.result)


def _codes(model: Model, manifest: Manifest) -> Array:
    """Return the number that stands for each of the model's labels in the dataset, (n_labels,); nan: no row has it."""
    places: dict[float | str, float] = {name: float(place) for place, name in enumerate(manifest.label_names)}
    code = places.get if manifest.label_names else lambda label, _: np.nan if isinstance(label, str) else label
    return np.array([code(label, np.nan) for label in model.labels])


def _check(model: Model, labels: Array, manifest: Manifest) -> None:
    # A dataset with very many labels does not count them, and only knows their range.
    unknown = [label for label in manifest.labels or manifest.label_range if label not in labels]
    if unknown and (not model.is_regression or manifest.label_names):
        names = ", ".join(map(shown_label, model.labels[:_LABELS_SHOWN])) or "numbers"
        more = ", ..." if len(model.labels) > _LABELS_SHOWN else ""
        raise ServiceError(
            "label_mismatch",
            f"the dataset has rows labelled {manifest.label_text(unknown[0])}, the model's labels are {names}{more}",
            "Give the dataset the labels that the model was trained with.",
        )


def _applied(model: Model, dataset: Dataset, matched: Matched) -> Applied:
    """Return the model's decision function for rows whose features are numbered as in the dataset's blocks."""
    begin, end = model.index_base, model.index_base + model.n_features
    # numbers[f] is the number in the model of feature f of the blocks.
    numbers = dataset.numbers if matched.numbers is None else matched.numbers[dataset.numbers]
    unknown = ((numbers < begin) | (numbers >= end)) & (numbers >= 0)
    # With index_base 1, number 0 is no feature.
    is_known = not unknown[numbers >= dataset.manifest.index_base].any()
    if model.maps is not None:
        values = _mapped(model, numbers)
    else:
        values = (_linear if model.vectors is None else _machine)(model, numbers)
    return Applied(values, None if is_known else unknown, _model_losses(model), dataset.manifest.weights is not None)


def _linear(model: Model, numbers: Array) -> Callable[[Segment], Array]:
    places = numbers - model.index_base
    is_known = (places >= 0) & (places < model.n_features)
    w = np.zeros((len(np.atleast_2d(model.w)), len(numbers)))
    for by_block, weights in zip(w, np.atleast_2d(model.w), strict=True):
        by_block[is_known] = weights[places[is_known]]
    return partial(decision_values, w=w if model.is_multiclass else w[0], intercept=model.intercept)


def _mapped(model: Model, numbers: Array) -> Callable[[Segment], Array]:
    assert model.maps is not None
    mapped, is_string = Mapped(model.maps, model.w, model.index_base), model.maps.shape.strings

    def values(rows: Segment) -> Array:
        indices = rows.indices if is_string else numbers[rows.indices]
        return mapped.of_rows(replace(rows, indices=indices)) + model.intercept

    return values


def _machine(model: Model, numbers: Array) -> Callable[[Segment], Array]:
    assert model.vectors is not None
    # Features of the vectors that no row has still count in every distance: they get numbers after the rows' features.
    used, place = np.unique(model.vectors.indices, return_inverse=True)
    in_blocks = len(numbers) + np.arange(len(used))
    _, of_model, of_blocks = np.intersect1d(used, numbers, assume_unique=True, return_indices=True)
    in_blocks[of_model] = of_blocks
    machine = KernelMachine(model.vectors.renumbered(in_blocks[place], len(numbers) + len(used)), model.w)
    is_left_out = numbers < 0
    if not is_left_out.any():
        return lambda rows: machine.decision_values(rows) + model.intercept
    # Columns that the model does not have must not count in any distance.
    return lambda rows: (
        machine.values(rows.indptr, rows.indices, np.where(is_left_out[rows.indices], 0, rows.values)) + model.intercept
    )


def _squared_norm(model: Model) -> float:
    """Return |f|^2, the squared norm of the decision function and the bias weight; summed over several classes."""
    norm = float(np.vdot(model.w, model.w)) if model.vectors is None else squared_norm(model.vectors, model.w)
    return (norm + float(np.sum(np.square(model.w_bias)))) * (2 if model.is_mirrored else 1)


def _view(model: Model, manifest: Manifest, evaluation: EvaluationPass, figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "rows": manifest.n_rows,
        "weighted": manifest.weights is not None,
        **({} if manifest.weights is None else {"weight_sum": evaluation.weight}),
        **figures,
        "objective": _squared_norm(model) / 2 + evaluation.losses if _model_losses(model) else None,
        "unknown_features": evaluation.unknown_features,
    }


def main(model: str, dataset: str, curves: str = "", threshold: str = "") -> int:
    """Print the evaluation, or its problem, as JSON; return the exit code. `model` and `dataset` are directories."""
    die_with_parent()
    os.nice(_NICE)
    try:
        with refusing(StorageError):
            print(json.dumps(evaluate(read_model(Path(model)), Dataset(Path(dataset)), bool(curves), threshold)))
    except ServiceError as error:
        print(json.dumps({"problem": error.problem()}))
        return 1
    return 0


def _model_losses(model: Model) -> _Losses | None:
    """Make a function (rows, decision) -> sum of C_i loss_i over rows i; None if the model has no record of it.

    rows      their class codes are positions in the model's labels
    decision  decision values, (n_rows,) or (n_rows, n_classes)
    With one class against the rest, the losses of all classes are summed; a class's weight multiplies C for the
    rows of that class in its own problem, as in LIBLINEAR.
    """
    if "C" not in model.about:
        return None
    C, weights = model.about["C"], _class_weights(model)
    if weights is None:
        return None
    if model.is_crammer_singer or model.is_mirrored:
        return _crammer_singer(C * weights)
    loss = make_loss(model.about["loss"], model.about.get("spec", {}).get("epsilon", 0.0))
    others = weights[1] if len(weights) == 2 else 1.0  # of rows outside the positive class

    def losses(rows: Segment, decision: Array) -> float:
        total = 0.0
        for place, column in enumerate(decision.reshape(len(rows), -1).T):
            is_own = rows.class_code == place
            by_row = np.ones(len(rows)) if model.is_regression else np.where(is_own, weights[place], others)
            terms = RowTerms(np.where(is_own, 1.0, -1.0), C * by_row * _weight(rows), rows.target, rows.class_code)
            total += float(loss.losses(terms, loss.m(terms, np.ascontiguousarray(column))))
        return total

    return losses


def _weight(rows: Segment) -> Array:
    return rows.weight if len(rows.weight) else np.ones(len(rows))


def _crammer_singer(C: Array) -> _Losses:
    """Make a function that sums Crammer and Singer's (2001) losses: C_yi max_c (1 [c is not y_i] + f_c - f_yi).

    y_i is the class of row i, f_c the decision value of class c, C (n_classes,) the weight of each class's losses.
    """

    def losses(rows: Segment, decision: Array) -> float:
        if decision.ndim == 1:
            decision = np.stack([decision, -decision], axis=1)  # see Model.is_mirrored
        return crammer_singer.losses(rows.class_code, C[rows.class_code] * _weight(rows), decision)

    return losses


def _class_weights(model: Model) -> Array | None:
    """Return the class weights, factors of C, (n_labels,); None: "balanced" weights, which an older version lost."""
    asked = model.about.get("spec", {}).get("class_weight") or {}
    if asked == "balanced":
        counted = model.about.get("class_weights")
        return None if counted is None else np.array(counted)
    return np.array([_class_weight(asked, label) for label in model.labels])


def _class_weight(asked: Mapping[str, float], label: Label) -> float:
    for name, weight in asked.items():
        if name == label or (not isinstance(label, str) and float(name) == label):
            return weight
    return 1.0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
