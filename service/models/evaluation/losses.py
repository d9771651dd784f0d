"""The losses of a model's training problem, at its decision values."""

from collections.abc import Callable, Mapping

import numpy as np

from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.problem.losses import crammer_singer, make_loss
from streamsvm.trainer.problem.tasks import RowTerms

Losses = Callable[[Segment, Array], float]


def model_losses(model: Model) -> Losses | None:
    """A function (rows, decision) -> sum of C_i loss_i; None if the model does not say its problem.

    rows      class codes are places of the model's labels
    decision  (n_rows,) or (n_rows, n_classes)
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

    def losses(rows: Segment, decision: Array) -> float:
        total = 0.0
        for place, column in enumerate(decision.reshape(len(rows), -1).T):
            is_own = rows.class_code == place
            by_row = np.ones(len(rows)) if model.is_regression else np.where(is_own, weights[place], _others(weights))
            terms = RowTerms(np.where(is_own, 1.0, -1.0), C * by_row * _weight(rows), rows.target, rows.class_code)
            total += loss.losses(terms, loss.m(terms, np.ascontiguousarray(column)))
        return total

    return losses


def _others(weights: Array) -> float:
    """Weight of the rows that are not of the class: of two classes they have one of their own."""
    return weights[1] if len(weights) == 2 else 1.0


def _weight(rows: Segment) -> Array:
    return rows.weight if len(rows.weight) else np.ones(len(rows))


def _crammer_singer(C: Array) -> Losses:
    """Sum over rows of C_yi max_c (1 [c is not y_i] + f_c - f_yi), with C (n_classes,): Crammer and Singer 2001."""

    def losses(rows: Segment, decision: Array) -> float:
        if decision.ndim == 1:
            decision = np.stack([decision, -decision], axis=1)  # see Model.is_mirrored
        return crammer_singer.losses(rows.class_code, C[rows.class_code] * _weight(rows), decision)

    return losses


def _class_weights(model: Model) -> Array | None:
    """The factors of C of the model's labels (n_labels,); None if they were counted, and an older version kept none."""
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
