"""How good decision values of rows held out are: what a cross-validation says of each fold."""

import numpy as np

from reader.certificate.auc import area_under_curve
from reader.certificate.calibration import Calibration
from reader.certificate.class_counts import ClassCounts
from storage.csr import Array
from storage.decision import predicted_classes
from storage.probability import Sigmoid, probabilities

Figures = dict[str, float | None]

OF_CLASSES = ("accuracy", "balanced_accuracy", "f1", "auc", "log_loss")
OF_NUMBERS = ("mse", "mae", "r_squared")
LESS_IS_BETTER = ("log_loss", "mse", "mae")


def class_metrics(y: Array, values: Array, n_classes: int, sigmoid: Sigmoid | None) -> Figures:
    """Of rows of these classes (n,) with these decision values (n,) or (n, n_classes); None: not known of such rows.

    f1 is that of the first of two classes, the positive one, and the mean over more; auc is of two classes, log_loss
    of what has probabilities.
    """
    counts, predicted = ClassCounts(n_classes), predicted_classes(values)
    counts.add(y, predicted)
    by_class = [each["f1"] or 0.0 for each in counts.by_class()]
    found: Figures = {
        "accuracy": counts.accuracy,
        "balanced_accuracy": counts.balanced_accuracy,
        "f1": by_class[0] if n_classes == 2 else float(np.mean(by_class)),
    }
    if n_classes == 2:
        found["auc"] = area_under_curve(values[y == 0], values[y == 1])
    if sigmoid is not None:
        calibration = Calibration()
        calibration.add(y, predicted, probabilities(values, sigmoid))
        found["log_loss"] = calibration.figures()["log_loss"]
    return found


def number_metrics(y: Array, values: Array) -> Figures:
    """Of rows with these labels (n,) and these predictions (n,); None: not known of such rows.

    mse and mae are the means of squared and absolute errors. r_squared compares the squared errors with those of the
    mean label; LIBLINEAR's squared_correlation does not mind predictions that are off by a factor or a constant.
    """
    errors = values - y
    squares, spread = float(errors @ errors), float(np.sum((y - y.mean()) ** 2))
    return {
        "mse": squares / len(y),
        "mae": float(np.mean(np.abs(errors))),
        "r_squared": 1.0 - squares / spread if spread else None,
        "squared_correlation": _squared_correlation(y - y.mean(), values - values.mean()),
    }


def _squared_correlation(y: Array, values: Array) -> float | None:
    """Of numbers whose means are 0."""
    both = float(y @ y) * float(values @ values)
    return float(y @ values) ** 2 / both if both else None
