"""What the lanes of a job come to together: its result, and its models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.jobs.lanes.cross_validation import CrossValidation
from streamsvm.service.jobs.lanes.lanes import Cs_of, Lane
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.files.scratch import scratch
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import joined

_OWN = ("converged", "stop_reason", "passes", "machine")


def job_result(lanes: Sequence[Lane], abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of some lanes and what is kept of each, in the same order.

    Converged if all are, else the reason is that of the first that is not; the certificate is the worst.
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


def _distance(certificate: Mapping[str, Any]) -> tuple[float, float]:
    found = (certificate[name] for name in ("gap", "relative_duality_gap"))
    gap, relative = (inf if number is None or number != number else number for number in found)
    return gap, relative


def models_of(
    plan: JobPlan,
    n_done: int,
    outcome_of: Callable[[int], Model],
    about: Mapping[str, Any],
    folds: CrossValidation | None,
    directory: Path,
) -> Iterator[tuple[float, Model]]:
    """A model for each C all of whose lanes over all rows are done, with its C; with folds the selected one, or all.

    n_done      lanes that are done; outcome_of: what one came to, by its number, with the trainer's result in `about`
    about       what all models say of where they come from
    directory   on a disk that holds the weights of all classes: memory is for those of one
    """
    values = Cs_of(plan.spec) if folds is None or plan.spec.keep == "all" else (folds.selected_C,)
    n_classes = len(plan.labels) if len(plan.labels) > 2 and not plan.spec.is_joint else 1
    for C in values:
        numbers = [k for k, lane in enumerate(plan.lanes[:n_done]) if (lane.fold, lane.C) == (None, C)]
        if len(numbers) == n_classes:
            model, result = _joined([plan.lanes[k] for k in numbers], map(outcome_of, numbers), directory)
            own = {"loss": plan.spec.loss, "C": C, "solver": plan.spec.solver}
            spec = plan.spec.model_copy(update={"C": C}).model_dump()
            model = replace(model, labels=plan.model_labels, about={**about, "spec": spec, **result, **own})
            yield C, model if folds is None else replace(model, sigmoid=folds.sigmoid(C))


def _joined(lanes: Sequence[Lane], outcomes: Iterator[Model], directory: Path) -> tuple[Model, Mapping[str, Any]]:
    """One model of what lanes of as many classes came to, and their result; its labels are to be said."""
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
    """The vectors of all, each with a coefficient in the decision value of its own class alone."""
    w = np.zeros((len(machines), sum(len(machine.w) for machine in machines)))
    begin = 0
    for own, machine in zip(w, machines, strict=True):
        own[begin : begin + len(machine.w)] = machine.w
        begin += len(machine.w)
    return replace(machines[0], w=w, vectors=joined([machine.vectors for machine in machines if machine.vectors]))
