"""The outcome of a job: its cross-validation, its result, and its models, joined from the models of its lanes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.certificate.metrics import Calibration, ClassCounts, NumberErrors, Ranking, weighted
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.scoring import FIGURE_OF, sign_of
from streamsvm.service.jobs.lanes.lane_files import held_out, holds_weights, training_accuracy
from streamsvm.service.jobs.plan.lanes import Lane, class_weights
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.states import estimated_score, score_in
from streamsvm.storage.files.arrays import scratch
from streamsvm.storage.models.decision import predicted_classes
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.probability import LOGISTIC, Sigmoid, fit_sigmoid, probabilities
from streamsvm.storage.models.support_vectors import joined
from streamsvm.storage.rows.csr import Array

Figures = dict[str, float | None]
_MOST_CONFUSED = 100  # classes: a record with more would be too long to list
_LEVEL = 0.25  # of the standard error of a metric: while C grows, the metric goes up and down by as much
_HINT = "Ask for fewer folds, or select by another metric."


class HeldOutRows(NamedTuple):
    """Held-out rows: y (n,), decision values (n,) or (n, n_classes), weight (n,), where None counts each row once.

    y is the index of the class in the model's labels, int64; in regression it is the label, float64.
    """

    y: Array
    values: Array
    weight: Array | None


def class_metrics(rows: HeldOutRows, n_classes: int, sigmoid: Sigmoid | None) -> Figures:
    """Return metrics of a classification; a metric that these rows do not determine is None.

    auc and average_precision: only with two classes; log_loss: only with a sigmoid
    """
    y, values, weight = rows
    is_weighted, predicted = weight is not None, predicted_classes(values)
    counts = ClassCounts(n_classes, is_weighted)
    counts.add(y, predicted, weight)
    found: Figures = counts.figures()
    if n_classes == 2:
        scores = values if weight is None else weighted(values, weight)
        found |= Ranking(scores[y == 0], scores[y == 1]).figures()
    if sigmoid is not None:
        calibration = Calibration(is_weighted)
        calibration.add(y, predicted, probabilities(values, sigmoid), weight)
        found["log_loss"] = calibration.figures()["log_loss"]
    return found


def number_metrics(rows: HeldOutRows) -> Figures:
    """Return the figures of NumberErrors; a metric that these rows do not determine is None."""
    errors = NumberErrors()
    errors.add(*rows)
    return errors.figures()


class CrossValidation:
    """The cross-validation of a job whose lanes are all done, read from the job's directory."""

    def __init__(
        self, plan: JobPlan, job_dir: Path, Cs: Sequence[float] | None = None, known: "CrossValidation | None" = None
    ) -> None:
        self._plan, self.Cs = plan, plan.spec.Cs if Cs is None else Cs
        self._job_dir = job_dir
        self._known: dict[float, tuple[dict[str, Any], Sigmoid | None]] = {}
        if known:
            self._known = known._known | known._found

    @cached_property
    def figures(self) -> list[dict[str, Any]]:
        """For each C, ascending: every metric in each fold, its mean and standard deviation over the folds, and `all`.

        `all` has the metrics of the rows of all folds together, as LIBLINEAR's -v prints them.
        """
        return [figures for figures, _ in self._found.values()]

    @property
    def _figure(self) -> tuple[str, float]:
        """The figure that `scoring` is of, and 1, or -1 if less of it is better."""
        scoring = self._plan.spec.scoring
        return FIGURE_OF[scoring], sign_of(scoring)

    @property
    def selected_C(self) -> float:
        """The C with the best mean of `scoring`, the smallest of equals.

        With C "auto-1se": the smallest C whose mean is within one standard error of the best. Raises ServiceError if a
        fold lacks the metric.
        """
        (by, sign), best = self._figure, self._best
        margin = self._error(best) if self._plan.spec.takes_smallest else 0.0
        return next(each["C"] for each in self.figures if sign * (best["mean"][by] - each["mean"][by]) <= margin)

    @property
    def _best(self) -> dict[str, Any]:
        by, sign = self._figure
        if any(each["mean"][by] is None for each in self.figures):
            raise _unknown(by, self._n_classes)
        return max(self.figures, key=lambda each: sign * each["mean"][by])

    def _error(self, of: Mapping[str, Any]) -> float:
        """The standard error of the mean of `scoring` over folds."""
        return float(of["std"][self._figure[0]] / len(of["folds"]) ** 0.5)

    @property
    def has_peaked(self) -> bool:
        """Whether larger values of C than those tried, in ascending order, will hardly improve the metric."""
        (by, sign), best = self._figure, self._best
        values = [sign * each["mean"][by] for each in self.figures]
        error = self._error(best) if len(best["folds"]) > 1 else None
        least = self.figures[int(np.argmin(values))]
        rises = [more[by] - less[by] for less, more in zip(least["folds"], best["folds"], strict=True)]
        return is_past_best(values, error, float(np.std(rises) / len(rises) ** 0.5))

    @property
    def view(self) -> dict[str, Any]:
        """The cross-validation as a dict, as the result of a job shows it."""
        confusion = {"confusion": self._confusion} if 0 < self._n_classes <= _MOST_CONFUSED else {}
        return {"cv": self.figures, "selected_C": self.selected_C, **confusion}

    @property
    def _confusion(self) -> dict[str, Any]:
        """Rows held out, or their weights, by true and predicted class, where C is the selected one."""
        y, values, weight = _all_rows([self._fold(self.selected_C, fold) for fold in self._plan.spec.held_out])
        counts = ClassCounts(self._n_classes, weight is not None)
        counts.add(y, predicted_classes(values), weight)
        assert counts.confusion is not None, "classes are few"
        return {"labels": list(self._plan.model_labels), "rows": counts.confusion.tolist()}

    def score(self, C: float) -> dict[str, Any]:
        """The score of the models of this C, as views of jobs and models show it."""
        return score_in(self._found[C][0], self._figure[0])

    def sigmoid(self, C: float) -> Sigmoid | None:
        """Return the sigmoid from decision values of this C's model to probabilities; None if none are asked for."""
        return self._found[C][1]

    @cached_property
    def _found(self) -> dict[float, tuple[dict[str, Any], Sigmoid | None]]:
        """Each C, ascending, with its figures and its sigmoid."""
        return {C: self._known.get(C) or self._find(C) for C in self.Cs}

    def _find(self, C: float) -> tuple[dict[str, Any], Sigmoid | None]:
        rows = [self._fold(C, fold) for fold in self._plan.spec.held_out]
        together = _all_rows(rows)
        sigmoid = None if self._plan.spec.probability is None else _fitted(together)
        folds = [self._metrics(each, sigmoid) for each in rows]
        over = {"mean": _over(folds, np.mean), "std": _over(folds, np.std), "all": self._metrics(together, sigmoid)}
        return {"C": C, "folds": folds, **over}, sigmoid

    def _metrics(self, rows: HeldOutRows, sigmoid: Sigmoid | None) -> Figures:
        if not self._n_classes:
            return number_metrics(rows)
        if self._plan.spec.loss_kind.has_probabilities:
            sigmoid = (LOGISTIC,) * self._n_values
        return class_metrics(rows, self._n_classes, sigmoid)

    @cached_property
    def _is_weighted(self) -> bool:
        """Whether rows count by their weights: in all folds, or, if one fold has no weights, in none."""
        lanes = enumerate(self._plan.lanes)
        numbers = (number for number, lane in lanes if lane.fold is not None and lane.C in self.Cs)
        return self._plan.manifest.weights is not None and all(holds_weights(self._job_dir, n) for n in numbers)

    @property
    def _n_classes(self) -> int:
        """Number of classes, 0 in regression."""
        return len(self._plan.labels)

    @property
    def _n_values(self) -> int:
        """Number of decision values of a row."""
        return self._n_classes if self._n_classes > 2 else 1

    def _fold(self, C: float, fold: int) -> HeldOutRows:
        """Return the held-out rows of a fold, from the lanes with this C that left the fold out."""
        lanes = enumerate(self._plan.lanes)
        parts = [held_out(self._job_dir, number) for number, lane in lanes if (lane.C, lane.fold) == (C, fold)]
        weight = parts[0]["weight"] if self._is_weighted else None
        if not self._n_classes:
            return HeldOutRows(parts[0]["target"].astype(float), parts[0]["decision_values"], weight)
        if self._n_values == 1:
            target, values = (
                parts[0][name].reshape(len(parts[0]["ids"]), -1)[:, 0] for name in ("target", "decision_values")
            )
            return HeldOutRows((target < 0).astype(np.int64), values, weight)
        target, values = (np.column_stack([part[name] for part in parts]) for name in ("target", "decision_values"))
        return HeldOutRows(target.argmax(axis=1), values, weight)


def is_past_best(values: Sequence[float], error: float | None, error_of_rise: float) -> bool:
    """Whether a metric at ascending powers of 4 that rises, and then falls or stays, has its best value among these.

    It has not risen for three powers by more than a part of its standard error `error` (None for a single fold), or has
    fallen for two by more than twice `error`. Nothing may be learned yet while it has risen by no more than `error`, or
    than twice `error_of_rise`, the standard error of the rise from its least value to the best on the same folds: where
    one column is much larger than the others, these need a large C.
    """
    best, margin = max(values), 0.0 if error is None else _LEVEL * error
    after = values[next(place for place, value in enumerate(values) if value >= best - margin) + 1 :]
    has_fallen = error is not None and len(after) >= 2 and best - max(after) > 2.0 * error
    has_learned = best - min(values) > max(error or 0.0, 2.0 * error_of_rise)
    return has_learned and (has_fallen or len(after) >= 3)


def cross_validation(
    plan: JobPlan, job_dir: Path, n_done: int, known: CrossValidation | None = None
) -> CrossValidation | None:
    """Return the cross-validation over the values of C of which all folds are done; None if there is no such value.

    known  has the figures of some of these values
    """
    Cs = plan.Cs_of(n_done)
    return CrossValidation(plan, job_dir, Cs, known) if Cs else None


def _all_rows(folds: list[HeldOutRows]) -> HeldOutRows:
    """Return the rows of all folds as one."""
    y, values, weight = zip(*folds, strict=True)
    return HeldOutRows(np.concatenate(y), np.concatenate(values), None if weight[0] is None else np.concatenate(weight))


def _fitted(rows: HeldOutRows) -> Sigmoid:
    """Fit a sigmoid for each class to the rows of all folds, each row held out of training (Platt 1999)."""
    columns = rows.values.reshape(len(rows.y), -1).T
    return tuple(fit_sigmoid(column, rows.y == place, rows.weight) for place, column in enumerate(columns))


def _over(folds: list[Figures], of: Callable[[list[float]], Any]) -> Figures:
    """Return `of` (mean or deviation) of each metric over the folds; None if a fold lacks the metric."""
    values = {name: [each[name] for each in folds] for name in folds[0]}
    return {name: None if None in each else float(of(each)) for name, each in values.items()}  # type: ignore[arg-type]


def _unknown(metric: str, n_classes: int) -> ServiceError:
    """Return the error for a metric that some fold lacks, so that no C can be selected by it."""
    if n_classes:
        return ServiceError("fold_without_class", f"{metric} is not known of a fold without one of the classes", _HINT)
    return ServiceError("constant_fold", f"{metric} is not known of a fold whose labels are all the same", _HINT)


_OWN = ("converged", "stop_reason", "passes", "machine", "training", "leave_one_out")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job whose last run has ended.

    done      the record of each finished lane, in order
    model_of  returns the model of a lane by its number, with the trainer's report in the model's `about`
    folds     the cross-validation; None: the job has none, or not all of its lanes are done, and it searches for no C
    """

    plan: JobPlan
    done: Sequence[Mapping[str, Any]]
    model_of: Callable[[int], Model]
    folds: CrossValidation | None

    @property
    def result(self) -> dict[str, Any]:
        """The `result` of the job, a dict."""
        found = job_result(self.plan.lanes, self.done)
        models = [(lane, about) for lane, about in zip(self.plan.lanes, self.done, strict=False) if lane.fold is None]
        if self.plan.spec.searches_C and models:
            # Lanes that only judge values of C end early: the certificate is that of the models.
            judged = job_result(*zip(*models, strict=True))
            found |= {name: judged[name] for name in ("converged", "stop_reason", "certificate")}
        return {**found, **made_in_all(self.done), **self.folds_view}

    @property
    def folds_view(self) -> dict[str, Any]:
        """The part of the result that a cross-validation adds; {} without one."""
        return self.folds.view if self.folds else {}

    def models(self, about: Mapping[str, Any], directory: Path) -> Iterator[tuple[float, Model]]:
        """Yield (C, model) for each C whose lanes over all rows are done; with folds, the selected C or all (`keep`).

        about      added to every model's `about`: says which data the model comes from
        directory  on a disk that holds the weights of all classes; memory holds the weights of one class at a time
        """
        plan, folds = self.plan, self.folds
        for C in plan.spec.Cs if folds is None or plan.spec.keep == "all" else (folds.selected_C,):
            if numbers := plan.lanes_of(C, len(self.done)):
                model = _joined(len(numbers), map(self.model_of, numbers), directory)
                abouts = [self.done[k] for k in numbers]
                is_one = len(numbers) == 1
                result = abouts[0]["result"] if is_one else job_result([plan.lanes[k] for k in numbers], abouts)
                own: dict[str, Any] = {"loss": plan.spec.loss, "C": C, "solver": plan.spec.solver}
                if plan.spec.class_weight == "balanced":
                    weights = class_weights(plan.spec, plan.labels, plan.manifest)
                    own["class_weights"] = [*weights.values()]
                spec = plan.spec.model_copy(update={"C": C}).model_dump()
                estimate = estimated_score(abouts[0]["result"])
                own["score"] = estimate if folds is None else folds.score(C)
                model = replace(model, labels=plan.model_labels, about={**about, "spec": spec, **result, **own})
                yield C, model if folds is None else replace(model, sigmoid=folds.sigmoid(C))


def with_training_scores(
    plan: JobPlan, job_dir: Path, done: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return the records of finished lanes, with the training accuracy of models whose classes several runs trained."""
    found = list(done)
    for numbers in (plan.lanes_of(C, len(done)) for C in plan.spec.Cs):
        if (accuracy := training_accuracy(job_dir, plan, numbers)) is not None:
            for number in numbers:
                result = {**done[number]["result"], "training": {"accuracy": accuracy}}
                found[number] = {**done[number], "result": result}
    return found


def job_result(lanes: Sequence[Lane], abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of some lanes, from the record of each lane, in the same order.

    The job has converged if all lanes have; if not, the first lane that has not gives the reason. The certificate is
    that of the lane with the largest gap.
    """
    results = [about["result"] for about in abouts]
    first = next((each for each in results if not each["converged"]), results[-1])
    worst = max((each["certificate"] for each in results), key=_distance)
    return {
        "converged": first["converged"],
        "stop_reason": first["stop_reason"],
        "passes": abouts[-1]["job_passes"],
        "certificate": worst,
        **({"machine": abouts[-1]["result"]["machine"]} if "machine" in abouts[-1]["result"] else {}),
        "lanes": [
            {**lane.view, **{name: each[name] for name in _OWN if name in each}, **each["certificate"]}
            for lane, each in zip(lanes, results, strict=False)
        ],
    }


def made_in_all(abouts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sweeps, Newton steps and scans of all runs of a job; {} if some run, perhaps an old one, has no count.

    Lanes that were trained side by side are one run, which counts once.
    """
    runs: list[Mapping[str, int]] = list({about.get("run"): about.get("made") or {} for about in abouts}.values())
    return {name: sum(made[name] for made in runs) for name in runs[0]} if all(runs) else {}


def _distance(certificate: Mapping[str, Any]) -> tuple[float, float]:
    found = (certificate[name] for name in ("gap", "relative_duality_gap"))
    gap, relative = (inf if number is None or number != number else number for number in found)
    return gap, relative


def _joined(n_classes: int, outcomes: Iterator[Model], directory: Path) -> Model:
    """Join the models of lanes, one a class, into one, whose labels the caller sets."""
    first = next(outcomes)
    if n_classes == 1:
        return first
    if first.vectors is not None:
        return _one_machine([first, *outcomes])
    w = scratch(directory, first.w.dtype, n_classes, len(first.w))
    w_bias: list[Any] = []
    for place, outcome in enumerate(chain([first], outcomes)):
        w[place] = outcome.w
        w_bias.append(outcome.w_bias)
    return replace(first, w=w, w_bias=tuple(w_bias) if first.bias is not None else 0.0)


def _one_machine(machines: Sequence[Model]) -> Model:
    """Join kernel machines of one class each: a support vector counts only in the decision value of its own class."""
    w = np.zeros((len(machines), sum(len(machine.w) for machine in machines)))
    begin = 0
    for own, machine in zip(w, machines, strict=True):
        own[begin : begin + len(machine.w)] = machine.w
        begin += len(machine.w)
    return replace(machines[0], w=w, vectors=joined([machine.vectors for machine in machines if machine.vectors]))
