"""Lays out the run directory of a job on several machines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.connecting import check_ray
from streamsvm.service.cluster.shards import check_here, shards_of
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.processes.run import Run
from streamsvm.service.settings import Settings
from streamsvm.storage.run.checkpoint import newest_checkpoint
from streamsvm.storage.run.state import RUN_FILE, State, create_state

PROCESS = "streamsvm.service.cluster.process"


def check_machines(plan: JobPlan, settings: Settings) -> None:
    """Raises ServiceError: ray_missing, ray_address, machines_range, dataset_spread."""
    asked, parts = plan.spec.machines, len(plan.manifest.parts)
    if asked is None:
        check_here(plan.manifest)
        return
    check_ray(settings.ray_address)
    shards_of(plan.manifest, (parts or 1) if asked == "all" else asked)


def prepare_cluster_run(
    directory: Path,
    plan: JobPlan,
    dataset: Path,
    job: str,
    settings: Settings,
    checkpoints: Path | None,
    warm_up: Callable[[State], None] | None,
) -> None:
    """State files and run.json. Raises ServiceError: ray_missing, ray_address, and what `warm_up` does.

    Dual variables stay on the machines: alpha is what there is to begin with, of a checkpoint in the directory
    `checkpoints`, where the job will leave one, or what `warm_up` makes; or it is empty.
    """
    check_machines(plan, settings)
    directory.mkdir(parents=True)
    # Of a sparse file nothing is there.
    state = create_state(directory, plan.n_rows, plan.width, True, *plan.axes)
    checkpoint = newest_checkpoint(checkpoints) if checkpoints else None
    if checkpoint:
        state.alpha[:] = checkpoint["alpha"]
        for name, value in checkpoint.about["control"].items():
            state.control[name] = value
    elif warm_up:
        warm_up(state)
    own = {
        "checkpoints": checkpoints and str(checkpoints),
        "last_checkpoint": checkpoint.about["number"] if checkpoint else 0,
        "has_alpha": bool(checkpoint) or bool(state.w.any()),
    }
    cluster = {**_told(plan, dataset, job, settings), **own}
    told = {"lane": plan.run_file(dataset)["lane"], "distances": None, "cluster": cluster}
    (directory / RUN_FILE).write_text(json.dumps(told))


def cluster_run(directory: Path, job_dir: Path, settings: Settings) -> Run:
    """The run of a directory that has been prepared so."""
    return Run(directory, job_dir, settings.stall_seconds, {"trainer": PROCESS})


def _told(plan: JobPlan, dataset: Path, job: str, settings: Settings) -> dict[str, Any]:
    spec = plan.spec
    return {
        "address": settings.ray_address,
        "machines": spec.machines,
        "dataset": str(dataset),
        "job": f"{job}-{plan.number}",
        "spec": spec.model_dump(),
        "number": plan.number,
        "at_once": plan.at_once,
        "n_rows": plan.n_rows,
        "width": plan.width,
        "axes": list(plan.axes),
        "lanes": len(plan.running),
        "passes_before": plan.passes_before,
        "checkpoint_seconds": spec.checkpoint_seconds,
        "rules": {
            "tolerance": spec.tolerance,
            "relative_gap": spec.relative_gap,
            "max_rounds": 1 if spec.combine == "average" else spec.max_passes,
            "max_seconds": spec.max_seconds,
            "combine": spec.combine,
        },
    }
