"""What the folds of a job's cross-validation say: figures of rows held out, which C is best, and probabilities."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from reader.auc import area_under_curve
from reader.calibration import Calibration
from reader.class_counts import ClassCounts
from service.errors import ServiceError
from service.lane_files import held_out
from service.lanes import Cs_of, n_folds_of
from service.problem import JobPlan
from storage.csr import Array
from storage.decision import predicted_classes
from storage.platt import fit_sigmoid
from storage.probability import LOGISTIC, Sigmoid, probabilities

_LESS_IS_BETTER = ("log_loss",)
_HINT = "Ask for fewer folds, or select by another metric."


class CrossValidation:
    """Of a job all of whose lanes are done, with what they left in its directory. Classes are places in its labels."""

    def __init__(self, plan: JobPlan, job_dir: Path) -> None:
        self._plan = plan
        self._job_dir = job_dir
        self._n_folds = n_folds_of(plan.spec)

    @cached_property
    def figures(self) -> list[dict[str, Any]]:
        """For each C, ascending: every metric in each fold, its mean over them and its standard deviation."""
        return [self._figures(C) for C in Cs_of(self._plan.spec)]

    @property
    def selected_C(self) -> float:
        """The C whose mean is best; the smallest of equal ones. Raises ServiceError fold_without_class."""
        by = self._plan.spec.select_by
        if any(each["mean"][by] is None for each in self.figures):
            raise ServiceError("fold_without_class", f"{by} is not known of a fold without one of the classes", _HINT)
        sign = -1.0 if by in _LESS_IS_BETTER else 1.0
        return max(self.figures, key=lambda each: (sign * each["mean"][by], -each["C"]))["C"]

    @property
    def view(self) -> dict[str, Any]:
        """As the result of a job shows it."""
        return {"cv": self.figures, "selected_C": self.selected_C}

    def sigmoid(self, C: float) -> Sigmoid | None:
        """What makes probabilities of the decision values of a model with this C; None if nobody asked.

        Fitted, class by class, on the rows of all folds, each held out (Platt 1999).
        """
        if self._plan.spec.probability is None:
            return None
        folds = [self._fold(C, fold) for fold in range(self._n_folds)]
        y, values = (np.concatenate(parts) for parts in zip(*folds, strict=True))
        columns = values.reshape(len(y), -1).T
        return tuple(fit_sigmoid(column, y == place) for place, column in enumerate(columns))

    def _figures(self, C: float) -> dict[str, Any]:
        sigmoid = (LOGISTIC,) * self._n_values if self._plan.spec.loss == "logistic" else self.sigmoid(C)
        n_classes = len(self._plan.labels)
        folds = [metrics(*self._fold(C, fold), n_classes, sigmoid) for fold in range(self._n_folds)]
        return {"C": C, "folds": folds, "mean": _over(folds, np.mean), "std": _over(folds, np.std)}

    @property
    def _n_values(self) -> int:
        """Decision values of a row."""
        return len(self._plan.labels) if len(self._plan.labels) > 2 else 1

    def _fold(self, C: float, fold: int) -> tuple[Array, Array]:
        """Rows of a fold, by the lanes that left it out: y (n,) int64, decision values (n,) or (n, n_classes)."""
        lanes = enumerate(self._plan.lanes)
        parts = [held_out(self._job_dir, number) for number, lane in lanes if (lane.C, lane.fold) == (C, fold)]
        if self._n_values == 1:
            return 1 - parts[0]["is_positive"].astype(np.int64), parts[0]["decision_values"]
        y = np.argmax([part["is_positive"] for part in parts], axis=0)
        return y, np.stack([part["decision_values"] for part in parts], axis=1)


def cross_validation(plan: JobPlan, job_dir: Path, n_done: int) -> CrossValidation | None:
    """That of a job so many of whose lanes are done; None if nobody asked for it, or it is not complete."""
    return CrossValidation(plan, job_dir) if n_folds_of(plan.spec) and n_done == len(plan.lanes) else None


def metrics(y: Array, values: Array, n_classes: int, sigmoid: Sigmoid | None) -> dict[str, float | None]:
    """Of rows of these classes (n,) with these decision values (n,) or (n, n_classes); None: not known of such rows.

    f1 is that of the first of two classes, the positive one, and the mean over more; auc is of two classes, log_loss
    of what has probabilities.
    """
    counts, predicted = ClassCounts(n_classes), predicted_classes(values)
    counts.add(y, predicted)
    by_class = [each["f1"] or 0.0 for each in counts.by_class()]
    found: dict[str, float | None] = {
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


def _over(folds: list[dict[str, float | None]], of: Callable[[list[float]], Any]) -> dict[str, float | None]:
    """Each metric over the folds; None where a fold does not know it."""
    values = {name: [each[name] for each in folds] for name in folds[0]}
    return {name: None if None in each else float(of(each)) for name, each in values.items()}  # type: ignore[arg-type]
