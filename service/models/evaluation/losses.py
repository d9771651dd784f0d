"""The losses of a model's training problem, at its decision values."""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.objective import Objective, make_objective
from streamsvm.trainer.problem.regression_losses import weighed

Losses = Callable[[Array, Array, Array | None], float]


def model_losses(model: Model) -> Losses | None:
    """A function (y, decision, weight) -> sum of C_i loss_i; None if the model does not say its problem.

    y         (n_rows,) the place of each row's label among the model's, or the target of regression
    decision  (n_rows,) or (n_rows, n_classes)
    weight    (n_rows,), or None: rows have no weights
    With one class against the rest, the losses of all classes are summed; a class's weight multiplies C for the
    rows of that class in its own problem, as in LIBLINEAR.
    """
    if "C" not in model.about:
        return None
    if model.is_regression:
        return _regression(_objective(model, 1.0, 1.0))
    weights = [_class_weight(model, label) for label in model.labels]
    if model.is_crammer_singer or model.is_mirrored:
        return _crammer_singer(model.about["C"] * np.array(weights))
    if not model.is_multiclass:
        return _against_the_rest([_objective(model, *weights)])
    return _against_the_rest([_objective(model, weight, 1.0) for weight in weights])


def _objective(model: Model, positive: float, negative: float) -> Objective:
    C, epsilon = model.about["C"], model.about.get("spec", {}).get("epsilon", 0.0)
    return make_objective(model.about["loss"], C * positive, C * negative, epsilon)


def _regression(objective: Objective) -> Losses:
    def losses(y: Array, decision: Array, weight: Array | None) -> float:
        target = y if weight is None else weighed(y, weight)
        return objective.losses(target, objective.m(target, decision))

    return losses


def _against_the_rest(objectives: list[Objective]) -> Losses:
    def losses(y: Array, decision: Array, weight: Array | None) -> float:
        total = 0.0
        for place, objective in enumerate(objectives):
            sign = np.where(y == place, 1.0, -1.0) * (1.0 if weight is None else weight)
            total += objective.losses(sign, objective.m(sign, decision.reshape(len(y), -1)[:, place]))
        return total

    return losses


def _crammer_singer(C: Array) -> Losses:
    """Sum over rows of C_yi max_c (1 [c is not y_i] + f_c - f_yi), with C (n_classes,): Crammer and Singer 2001."""

    def losses(y: Array, decision: Array, weight: Array | None) -> float:
        rows, label = np.arange(len(y)), y.astype(np.int64)
        if decision.ndim == 1:
            decision = np.stack([decision, -decision], axis=1)  # see Model.is_mirrored
        with_margin = decision + 1.0
        with_margin[rows, label] -= 1.0
        C_i = C[label] if weight is None else C[label] * weight
        return float(C_i @ (with_margin.max(axis=1) - decision[rows, label]))

    return losses


def _class_weight(model: Model, label: Label) -> float:
    for name, weight in (model.about.get("spec", {}).get("class_weight") or {}).items():
        if name == label or (not isinstance(label, str) and float(name) == label):
            return weight
    return 1.0
