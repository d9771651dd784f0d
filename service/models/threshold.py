"""Where two classes are cut: rules that choose a threshold of the decision value, and models that have one."""

import re
from dataclasses import replace

import numpy as np

from streamsvm.reader.certificate.metrics import Ranking
from streamsvm.service.errors import ServiceError
from streamsvm.storage.models.model_file import Model

RULES = "f1, precision>=0.9 or costs=5:1"
_PRECISION = re.compile(r"precision>=(0?\.\d{1,15}|0|1(?:\.0{1,15})?)", re.ASCII)
_COSTS = re.compile(r"costs=(\d{1,12}(?:\.\d{1,12})?):(\d{1,12}(?:\.\d{1,12})?)", re.ASCII)


def threshold_by(rule: str, ranking: Ranking) -> float:
    """Return the threshold that a rule chooses for these rows: a decision value above it predicts the first class.

    rule  `f1`: the largest F1 of the first class; `precision>=P`: the largest recall at which its precision is at
          least P; `costs=FP:FN`: least costs, where a row of the second class taken for the first costs FP, and one
          of the first taken for the second FN

    Raises ServiceError threshold_range, threshold_not_found.
    """
    if precision := _PRECISION.fullmatch(rule):
        found = ranking.at_precision(float(precision[1]))
    elif costs := _COSTS.fullmatch(rule):
        found = ranking.at_corner(lambda tp, fp, P: -(float(costs[1]) * fp + float(costs[2]) * (P - tp)))
    elif rule == "f1":
        found = ranking.at_corner(lambda tp, fp, P: 2.0 * tp / (P + tp + fp))
    else:
        raise ServiceError("threshold_range", "that is no rule for a threshold", f"Rules are {RULES}.")
    if found is None:
        hint = "Ask for a lower precision, or evaluate on rows of both classes."
        raise ServiceError("threshold_not_found", f"no threshold has {rule} on these rows", hint)
    return found


def cut_at(model: Model, threshold: float) -> Model:
    """Return the model whose decision values are lower by the threshold, so that they are cut at 0 as ever.

    Its predictions, by every route and in every format, are those of decision values above the threshold;
    probabilities stay. `about` has the sum of all thresholds, and no score, which would be that of a cut at 0.
    Raises ServiceError threshold_range.
    """
    check_two_classes(model)
    if not np.isfinite(threshold):
        raise ServiceError("threshold_range", "threshold is not a finite number", "Give a decision value.")
    bias = model.bias or 1.0
    sigmoid = model.probability
    return replace(
        model,
        bias=bias,
        w_bias=(model.intercept - threshold) / bias,
        sigmoid=None if sigmoid is None else tuple((A, B + A * threshold) for A, B in sigmoid),
        about={**model.about, "threshold": model.about.get("threshold", 0.0) + threshold, "score": None},
    )


def check_two_classes(model: Model) -> None:
    """Raise ServiceError threshold_range if the model has not two classes."""
    if model.is_multiclass or model.is_regression:
        raise ServiceError("threshold_range", "a threshold is for two classes", "Choose a model of two classes.")
