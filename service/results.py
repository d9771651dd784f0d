"""What the lanes of a job come to together: its result, and its models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from service.cross_validation import CrossValidation
from service.lanes import Cs_of, Lane
from service.problem import JobPlan
from storage.model_file import Model

_OWN = ("converged", "stop_reason", "passes")


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
        "lanes": [
            {**lane.view, **{name: each[name] for name in _OWN}, **each["certificate"]}
            for lane, each in zip(lanes, results, strict=False)
        ],
    }


def _distance(certificate: Mapping[str, Any]) -> tuple[float, float]:
    found = (certificate[name] for name in ("gap", "relative_duality_gap"))
    gap, relative = (inf if number is None or number != number else number for number in found)
    return gap, relative


def models_of(
    plan: JobPlan, outcomes: Iterable[Model], about: Mapping[str, Any], folds: CrossValidation | None
) -> Iterator[tuple[float, Model]]:
    """A model for each C all of whose lanes over all rows are done, with its C; with folds the selected one, or all.

    outcomes  of the lanes that are done, in order; the `about` of each has its trainer's `result`
    about     what all models say of where they come from
    """
    values = Cs_of(plan.spec) if folds is None or plan.spec.keep == "all" else (folds.selected_C,)
    lanes = zip(plan.lanes, outcomes, strict=False)
    done = [(lane, outcome) for lane, outcome in lanes if lane.fold is None and lane.C in values]
    n_classes = len(plan.labels) if len(plan.labels) > 2 else 1
    for C in values:
        mine = [each for each in done if each[0].C == C]
        if len(mine) == n_classes:
            own = {"loss": plan.spec.loss, "C": C, "solver": plan.spec.solver}
            spec = plan.spec.model_copy(update={"C": C}).model_dump()
            model = _joined(plan.model_labels, mine, {**about, "spec": spec}, own)
            yield C, model if folds is None else replace(model, sigmoid=folds.sigmoid(C))


def _joined(
    labels: tuple[float | str, ...], mine: list[tuple[Lane, Model]], about: Mapping[str, Any], own: Mapping[str, Any]
) -> Model:
    lanes, parts = zip(*mine, strict=True)
    if len(parts) == 1:
        return replace(parts[0], labels=labels, about={**about, **parts[0].about["result"], **own})
    result = job_result(lanes, [part.about for part in parts])
    return replace(
        parts[0],
        w=np.stack([part.w for part in parts]),
        labels=labels,
        w_bias=tuple(part.w_bias for part in parts) if parts[0].bias is not None else 0.0,
        about={**about, **result, **own},
    )
