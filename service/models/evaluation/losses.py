"""The losses of a model's own training problem, at its decision values."""

from collections.abc import Callable

import numpy as np

from streamsvm.storage.models.model_file import Label, Model
from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.problem.objective import Objective, make_objective
from streamsvm.trainer.problem.regression_losses import weighed

Losses = Callable[[Array, Array, Array | None], float]


def model_losses(model: Model) -> Losses | None:
    """Sum of C_i loss_i for y (n_rows,), decision values, and weights (n_rows,) of rows that have some.

    None if the model does not say its problem. y is the place of a row's label in the model's, or what regression is to
    predict. Of several classes, one against the rest, the losses of all are summed, a class's weight being that of its
    rows in its own problem, as in LIBLINEAR.
    """
    if "C" not in model.about:
        return None
    if model.is_regression:
        return _of_numbers(_objective(model, 1.0, 1.0))
    weights = [_class_weight(model, label) for label in model.labels]
    if model.is_crammer_singer or model.is_mirrored:
        return _crammer_singer(model.about["C"] * np.array(weights))
    if not model.is_multiclass:
        return _against_the_rest([_objective(model, *weights)])
    return _against_the_rest([_objective(model, weight, 1.0) for weight in weights])


def _objective(model: Model, positive: float, negative: float) -> Objective:
    C, epsilon = model.about["C"], model.about.get("spec", {}).get("epsilon", 0.0)
    return make_objective(model.about["loss"], C * positive, C * negative, epsilon)


def _of_numbers(objective: Objective) -> Losses:
    def losses(y: Array, decision: Array, weight: Array | None) -> float:
        own = y if weight is None else weighed(y, weight)
        return objective.losses(own, objective.m(own, decision))

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
    """C_i max_c (1 [c is not y_i] + f_c - f_yi), C (n_classes,)."""

    def losses(y: Array, decision: Array, weight: Array | None) -> float:
        rows, own = np.arange(len(y)), y.astype(np.int64)
        if decision.ndim == 1:
            decision = np.stack([decision, -decision], axis=1)  # see Model.is_mirrored
        beyond = decision + 1.0
        beyond[rows, own] -= 1.0
        C_i = C[own] if weight is None else C[own] * weight
        return float(C_i @ (beyond.max(axis=1) - decision[rows, own]))

    return losses


def _class_weight(model: Model, label: Label) -> float:
    for name, weight in (model.about.get("spec", {}).get("class_weight") or {}).items():
        if name == label or (not isinstance(label, str) and float(name) == label):
            return weight
    return 1.0
