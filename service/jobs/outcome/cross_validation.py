"""A job's cross-validation: figures of rows held out, the best C, and sigmoids for probabilities."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.fold_metrics import LESS_IS_BETTER, Figures, Rows, class_metrics, number_metrics
from streamsvm.service.jobs.lanes.held_out import held_out, holds_weights
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.models.probability import LOGISTIC, Sigmoid, fit_sigmoid

_HINT = "Ask for fewer folds, or select by another metric."


class CrossValidation:
    """The cross-validation of a job whose lanes are done, read from its directory. A class is a place in its labels."""

    def __init__(self, plan: JobPlan, job_dir: Path) -> None:
        self._plan = plan
        self._job_dir = job_dir

    @cached_property
    def figures(self) -> list[dict[str, Any]]:
        """For each C, ascending: every metric in each fold, its mean over them, its standard deviation, and `all`.

        `all` is of the rows of all folds together, as LIBLINEAR's -v is.
        """
        return [figures for figures, _ in self._found.values()]

    @property
    def selected_C(self) -> float:
        """The C whose mean is best, the smallest of equal ones. Raises ServiceError if a fold has none to compare."""
        by = self._plan.spec.select_by
        if any(each["mean"][by] is None for each in self.figures):
            raise _unknown(by, self._n_classes)
        sign = -1.0 if by in LESS_IS_BETTER else 1.0
        return max(self.figures, key=lambda each: (sign * each["mean"][by], -each["C"]))["C"]

    @property
    def view(self) -> dict[str, Any]:
        """The cross-validation as the result of a job shows it."""
        return {"cv": self.figures, "selected_C": self.selected_C}

    def sigmoid(self, C: float) -> Sigmoid | None:
        """The sigmoid that turns decision values of the model with this C into probabilities; None if nobody asked."""
        return self._found[C][1]

    @cached_property
    def _found(self) -> dict[float, tuple[dict[str, Any], Sigmoid | None]]:
        """Each C, ascending, with its figures and its sigmoid."""
        return {C: self._find(C) for C in self._plan.Cs}

    def _find(self, C: float) -> tuple[dict[str, Any], Sigmoid | None]:
        rows = [self._fold(C, fold) for fold in range(self._plan.n_folds)]
        together = _joined(rows)
        sigmoid = None if self._plan.spec.probability is None else _fitted(together)
        folds = [self._metrics(each, sigmoid) for each in rows]
        over = {"mean": _over(folds, np.mean), "std": _over(folds, np.std), "all": self._metrics(together, sigmoid)}
        return {"C": C, "folds": folds, **over}, sigmoid

    def _metrics(self, rows: Rows, sigmoid: Sigmoid | None) -> Figures:
        if not self._n_classes:
            return number_metrics(rows)
        if self._plan.spec.loss == "logistic":
            sigmoid = (LOGISTIC,) * self._n_values
        return class_metrics(rows, self._n_classes, sigmoid)

    @cached_property
    def _is_weighted(self) -> bool:
        """Whether rows count by their weights: in all folds, or, if one fold has no weights, in none."""
        numbers = (number for number, lane in enumerate(self._plan.lanes) if lane.fold is not None)
        return self._plan.manifest.weights is not None and all(holds_weights(self._job_dir, n) for n in numbers)

    @property
    def _n_classes(self) -> int:
        """Number of classes, 0 in regression."""
        return len(self._plan.labels)

    @property
    def _n_values(self) -> int:
        """Number of decision values of a row."""
        return self._n_classes if self._n_classes > 2 else 1

    def _fold(self, C: float, fold: int) -> Rows:
        """Rows of a fold, by the lanes that left it out."""
        lanes = enumerate(self._plan.lanes)
        parts = [held_out(self._job_dir, number) for number, lane in lanes if (lane.C, lane.fold) == (C, fold)]
        weight = parts[0]["weight"] if self._is_weighted else None
        if not self._n_classes:
            return Rows(parts[0]["target"].astype(float), parts[0]["decision_values"], weight)
        if self._n_values == 1:
            target, values = (
                parts[0][name].reshape(len(parts[0]["ids"]), -1)[:, 0] for name in ("target", "decision_values")
            )
            return Rows((target < 0).astype(np.int64), values, weight)
        target, values = (np.column_stack([part[name] for part in parts]) for name in ("target", "decision_values"))
        return Rows(target.argmax(axis=1), values, weight)


def cross_validation(plan: JobPlan, job_dir: Path, n_done: int) -> CrossValidation | None:
    """The cross-validation of a job with so many lanes done; None if it asks for none, or lanes are left."""
    return CrossValidation(plan, job_dir) if plan.n_folds and n_done == len(plan.lanes) else None


def _joined(folds: list[Rows]) -> Rows:
    """The rows of all folds."""
    y, values, weight = zip(*folds, strict=True)
    return Rows(np.concatenate(y), np.concatenate(values), None if weight[0] is None else np.concatenate(weight))


def _fitted(rows: Rows) -> Sigmoid:
    """Class by class, on the rows of all folds, each held out (Platt 1999)."""
    columns = rows.values.reshape(len(rows.y), -1).T
    return tuple(fit_sigmoid(column, rows.y == place, rows.weight) for place, column in enumerate(columns))


def _over(folds: list[Figures], of: Callable[[list[float]], Any]) -> Figures:
    """Each metric over the folds; None where a fold does not know it."""
    values = {name: [each[name] for each in folds] for name in folds[0]}
    return {name: None if None in each else float(of(each)) for name, each in values.items()}  # type: ignore[arg-type]


def _unknown(metric: str, n_classes: int) -> ServiceError:
    """No C can be selected by a metric that some fold has not."""
    if n_classes:
        return ServiceError("fold_without_class", f"{metric} is not known of a fold without one of the classes", _HINT)
    return ServiceError("constant_fold", f"{metric} is not known of a fold whose labels are all the same", _HINT)
