"""The contents of `run.json`: everything that reader and trainer have to know of a plan."""

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from streamsvm.service.jobs.plan.blocks import kept_bytes
from streamsvm.service.jobs.plan.following import FollowPlan
from streamsvm.service.jobs.plan.gamma import distances_of
from streamsvm.service.jobs.plan.newton import ANY_ROOM
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.features.maps import LEADING_BIAS
from streamsvm.storage.options import options_of
from streamsvm.storage.run.state import RUN_FILE
from streamsvm.trainer.problem.tasks import Tasks

_TRAINER_ALONE = {
    "solver", "pace", "tolerance", "relative_gap", "max_passes", "max_seconds", "checkpoint_seconds"
}  # fmt: skip


class _Told(NamedTuple):
    """Fields that depend on whether the dataset is complete: of both processes, of the reader, of the trainer."""

    shared: dict[str, Any]
    reader: dict[str, Any]
    trainer: dict[str, Any]


def run_file(plan: JobPlan | FollowPlan, dataset: Path) -> dict[str, Any]:
    """Contents of `run.json` for a run on the dataset, or the one to be, in this directory."""
    distances = distances_of(plan.spec, dataset) if isinstance(plan, JobPlan) else None
    told = _of_dataset(plan, dataset) if isinstance(plan, JobPlan) else _of_stream(plan, dataset)
    spec, solver, options = plan.spec, plan.solver, asdict(plan.spec.options)
    shared = {
        **told.shared,
        "cache": asdict(plan.cache),
        "maps": None,
        "n_rows": plan.n_rows,
        "width": plan.width,
        "seed": spec.seed,
    }
    return {
        "lane": running_lanes(plan),
        "distances": distances and distances.view,
        "reader": {
            **shared,
            **told.reader,
            # Beyond the cores, threads would only hold more of what is read ahead.
            "threads": min(spec.threads or plan.cores, plan.cores),
            **{name: options[name] for name, known in options_of(solver.options).items() if known.for_reader},
            "part_rows": None,
            "exact": spec.pace == "fixed",
            "evicts": solver.evicts,
            "is_dual": solver.is_dual,
            "has_kernel": solver.has_kernel,
        },
        "trainer": {
            **shared,
            **told.trainer,
            **spec.model_dump(include=_TRAINER_ALONE),
            "passes_before": plan.passes_before,
            "follows": plan.follows,
            "spill_directory": str(dataset.parent) if plan.spills else None,
            "gamma": distances and distances.gamma,
            "lane": plan.number,
            "share_of_gap": None,
            "shards": 1,
            "whole_steps": False,
            "options": options,
            "threads": plan.threads,
        },
    }


def running_lanes(plan: JobPlan | FollowPlan) -> dict[str, Any]:
    """The lanes that are run: number of the first, count, of how many; class, fold and C where all have the same."""
    if isinstance(plan, FollowPlan):
        return {"number": 0, "count": 1, "of": 1, "class": None, "fold": None, "C": plan.C}
    views = [lane.view for lane in plan.running]
    same = {name: value if all(view[name] == value for view in views) else None for name, value in views[0].items()}
    return {"number": plan.number, "count": len(views), "of": len(plan.lanes), **same}


def read_lane(directory: Path) -> dict[str, Any]:
    """The lanes of the run in this directory, see `running_lanes`."""
    return json.loads((directory / RUN_FILE).read_bytes())["lane"]


def has_leading_bias(directory: Path) -> bool:
    """Whether the constant feature comes first in the run in this directory. It does not on a cluster's machines."""
    trainer = json.loads((directory / RUN_FILE).read_bytes()).get("trainer")
    maps = None if trainer is None else trainer["maps"]
    return maps is not None and any(each["name"] == LEADING_BIAS for each in maps["maps"])


def _of_dataset(plan: JobPlan, dataset: Path) -> _Told:
    manifest, cache = plan.manifest, plan.cache
    return _Told(
        shared={"tasks": asdict(plan.tasks)},
        reader={
            "dataset": str(dataset),
            "staged": None,
            "has_weights": manifest.weights is not None,
            "blocks": plan.partition,
            "kept_bytes": kept_bytes(plan.spec, cache, manifest.longest_row),
            "keeps_all": plan.spills or cache.row_bytes >= manifest.decoded_bytes,
        },
        trainer={
            "largest_weight": manifest.weights.largest_trained if manifest.weights else 1.0,
            "cache_rows": cache.row_bytes / manifest.decoded_bytes * plan.n_rows,
            "newton_equations": plan.newton.equations,
            "shares_time": len(plan.firsts) > 1,
            "kept_rows": _kept_rows(plan, dataset) if plan.spills else None,
        },
    )


def _of_stream(plan: FollowPlan, dataset: Path) -> _Told:
    return _Told(
        shared={"tasks": asdict(Tasks.single(plan.spec.loss, plan.C, epsilon=plan.spec.epsilon))},
        reader={
            "dataset": str(dataset),
            "staged": str(staged_path(dataset)),
            "has_weights": True,  # rows that come may have some
            "blocks": None,
            "kept_bytes": 0,
            "keeps_all": plan.spills,
        },
        trainer={
            "largest_weight": inf,
            "cache_rows": 0.0,
            "newton_equations": ANY_ROOM.equations,  # how much would be needed is not known
            "kept_rows": None,
        },
    )


def _kept_rows(plan: JobPlan, dataset: Path) -> dict[str, Any]:
    """The key of this job's decoded rows among those of others."""
    own: dict[str, Any] = {"uid": plan.manifest.uid, "bias": plan.spec.bias}
    if plan.spec.features:
        own["features"] = plan.spec.features
    folds = {"of": plan.n_folds, "seed": plan.spec.seed} if plan.n_folds else None
    return {"dataset": str(dataset), **own, "labels": list(plan.labels), "folds": folds}
