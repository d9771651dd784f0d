"""The outcome of a job: its result and its models, joined from those of its lanes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.jobs.outcome.cross_validation import CrossValidation
from streamsvm.service.jobs.plan.lanes import Lane
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.files.arrays import scratch
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import joined

_OWN = ("converged", "stop_reason", "passes", "machine")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job whose last run has ended.

    done      the record of each lane that is done, in order
    model_of  reads the model of a lane by its number, with the trainer's report in `about`
    folds     the cross-validation; None if the job has none, or it is not complete
    """

    plan: JobPlan
    done: Sequence[Mapping[str, Any]]
    model_of: Callable[[int], Model]
    folds: CrossValidation | None

    @property
    def result(self) -> dict[str, Any]:
        """The job's `result`."""
        return {**job_result(self.plan.lanes, self.done), **made_in_all(self.done), **self.folds_view}

    @property
    def folds_view(self) -> dict[str, Any]:
        """The part of the result that a cross-validation adds."""
        return self.folds.view if self.folds else {}

    def models(self, about: Mapping[str, Any], directory: Path) -> Iterator[tuple[float, Model]]:
        """Each C whose lanes over all rows are done, with its model; with folds the selected C alone, or all.

        about      goes into every model, and says which data it comes from
        directory  on a disk that holds the weights of all classes; memory holds those of one class
        """
        plan, folds = self.plan, self.folds
        for C in plan.Cs if folds is None or plan.spec.keep == "all" else (folds.selected_C,):
            numbers = [k for k, lane in enumerate(plan.lanes[: len(self.done)]) if (lane.fold, lane.C) == (None, C)]
            if len(numbers) == plan.lanes_of_model:
                model, result = _joined([plan.lanes[k] for k in numbers], map(self.model_of, numbers), directory)
                own = {"loss": plan.spec.loss, "C": C, "solver": plan.spec.solver, **plan.counted_weights}
                spec = plan.spec.model_copy(update={"C": C}).model_dump()
                model = replace(model, labels=plan.model_labels, about={**about, "spec": spec, **result, **own})
                yield C, model if folds is None else replace(model, sigmoid=folds.sigmoid(C))


def job_result(lanes: Sequence[Lane], abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The result of some lanes, from the record of each, in the same order.

    The job has converged if all lanes have; else the first lane that has not gives the reason. The certificate is the
    worst of all lanes.
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
    """Sweeps, Newton steps and scans of all runs of a job; {} if a run, perhaps of an older version, has no count.

    Lanes that were trained side by side share them.
    """
    runs: list[Mapping[str, int]] = list({about.get("run"): about.get("made") or {} for about in abouts}.values())
    return {name: sum(made[name] for made in runs) for name in runs[0]} if all(runs) else {}


def _distance(certificate: Mapping[str, Any]) -> tuple[float, float]:
    found = (certificate[name] for name in ("gap", "relative_duality_gap"))
    gap, relative = (inf if number is None or number != number else number for number in found)
    return gap, relative


def _joined(lanes: Sequence[Lane], outcomes: Iterator[Model], directory: Path) -> tuple[Model, Mapping[str, Any]]:
    """Joins the models of lanes, one a class, into one whose labels the caller sets; and the result of these lanes."""
    first = next(outcomes)
    if len(lanes) == 1:
        return first, first.about["result"]
    if first.vectors is not None:
        machines = [first, *outcomes]
        return _one_machine(machines), job_result(lanes, [machine.about for machine in machines])
    w = scratch(directory, first.w.dtype, len(lanes), len(first.w))
    w_bias: list[Any] = []
    abouts = []
    for place, outcome in enumerate(chain([first], outcomes)):
        w[place] = outcome.w
        w_bias.append(outcome.w_bias)
        abouts.append(outcome.about)
    joined = replace(first, w=w, w_bias=tuple(w_bias) if first.bias is not None else 0.0)
    return joined, job_result(lanes, abouts)


def _one_machine(machines: Sequence[Model]) -> Model:
    """Join kernel machines: a vector of one counts in the decision value of its own class alone."""
    w = np.zeros((len(machines), sum(len(machine.w) for machine in machines)))
    begin = 0
    for own, machine in zip(w, machines, strict=True):
        own[begin : begin + len(machine.w)] = machine.w
        begin += len(machine.w)
    return replace(machines[0], w=w, vectors=joined([machine.vectors for machine in machines if machine.vectors]))
