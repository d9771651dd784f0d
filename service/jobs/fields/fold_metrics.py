"""Metrics of a fold: how good decision values are on rows that were held out."""

from typing import NamedTuple

import numpy as np

from streamsvm.reader.certificate.auc import area_under_curve, weighted
from streamsvm.reader.certificate.calibration import Calibration
from streamsvm.reader.certificate.class_counts import ClassCounts
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.probability import Sigmoid, probabilities
from streamsvm.storage.rows.csr import Array

Figures = dict[str, float | None]

OF_CLASSES = ("accuracy", "balanced_accuracy", "f1", "auc", "log_loss")
OF_NUMBERS = ("mse", "mae", "r_squared")
LESS_IS_BETTER = ("log_loss", "mse", "mae")


class Rows(NamedTuple):
    """Rows held out: y (n,), decision values (n,) or (n, n_classes), weight (n,); None: each row counts once.

    y is the place of the class, int64, or the label, float64, in regression.
    """

    y: Array
    values: Array
    weight: Array | None


def class_metrics(rows: Rows, n_classes: int, sigmoid: Sigmoid | None) -> Figures:
    """Metrics of a classification; None where these rows do not determine one.

    f1: of the first of two classes, the positive one; the mean over the classes if there are more
    auc: of two classes only; log_loss: with a sigmoid only
    """
    y, values, weight = rows
    is_weighted, predicted = weight is not None, predicted_classes(values)
    counts = ClassCounts(n_classes, is_weighted)
    counts.add(y, predicted, weight)
    by_class = [each["f1"] or 0.0 for each in counts.by_class()]
    found: Figures = {
        "accuracy": counts.accuracy,
        "balanced_accuracy": counts.balanced_accuracy,
        "f1": by_class[0] if n_classes == 2 else float(np.mean(by_class)),
    }
    if n_classes == 2:
        scores = values if weight is None else weighted(values, weight)
        found["auc"] = area_under_curve(scores[y == 0], scores[y == 1])
    if sigmoid is not None:
        calibration = Calibration(is_weighted)
        calibration.add(y, predicted, probabilities(values, sigmoid), weight)
        found["log_loss"] = calibration.figures()["log_loss"]
    return found


def number_metrics(rows: Rows) -> Figures:
    """Metrics of a regression; None where these rows do not determine one.

    mse and mae are the means of squared and absolute errors. r_squared compares the squared errors with those of the
    mean label. LIBLINEAR's squared_correlation stays the same if predictions are off by a factor or a constant.
    """
    errors = rows.values - rows.y
    y, values = (_centred(each, rows.weight) for each in (rows.y, rows.values))
    mse, variance, of_values, covariance = (
        float(np.average(each, weights=rows.weight)) for each in (errors**2, y**2, values**2, y * values)
    )
    both = variance * of_values
    return {
        "mse": mse,
        "mae": float(np.average(np.abs(errors), weights=rows.weight)),
        "r_squared": 1.0 - mse / variance if variance else None,
        "squared_correlation": covariance**2 / both if both else None,
    }


def _centred(numbers: Array, weight: Array | None) -> Array:
    """Numbers minus their mean; equal numbers become exactly 0."""
    near = numbers - numbers[0]
    return near - np.average(near, weights=weight)
