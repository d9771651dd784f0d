"""Prepares a run on the machines of a cluster. One process on this machine, the coordinator, stands for all of them."""

import json
from collections.abc import Callable
from pathlib import Path

from streamsvm.service.cluster.dataset.shards import check_here, shards_of
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import running_lanes
from streamsvm.service.processes.run import ProcessRun
from streamsvm.service.settings import Settings
from streamsvm.storage.run.checkpoint import Checkpoint, newest_checkpoint
from streamsvm.storage.run.state import RUN_FILE, State, create_state

PROCESS = "streamsvm.service.cluster.process"


def check_machines(plan: JobPlan, settings: Settings) -> None:
    """Check that a cluster is set up, and that the dataset can be divided among the machines that a plan asks for.

    Raises ServiceError: ray_missing, ray_address, machines_range, dataset_spread.
    """
    asked, parts = plan.spec.machines, len(plan.manifest.parts)
    if asked is None:
        check_here(plan.manifest)
        return
    check_ray(settings.ray_address)
    shards_of(plan.manifest, (parts or 1) if asked == "all" else asked)


def cluster_run(
    plan: JobPlan,
    directory: Path,
    job_dir: Path,
    dataset: Path,
    job: str,
    settings: Settings,
    checkpoints: Path | None,
    warm_up: Callable[[State], None] | None,
) -> tuple[ProcessRun, Checkpoint | None]:
    """Make the run directory and a run, which the caller starts.

    Returns the run, and the checkpoint from which it goes on, or None. Dual variables stay on the machines. The alpha
    of the run directory is their start: from the newest checkpoint in `checkpoints`, else from `warm_up`, else zeros.
    Raises ServiceError: ray_missing, ray_address, and what `warm_up` raises.
    """
    check_machines(plan, settings)
    directory.mkdir(parents=True)
    # alpha is a sparse file here: until something is written it takes no room.
    state = create_state(directory, plan.n_rows, plan.width, True, plan.tasks.width)
    checkpoint = newest_checkpoint(checkpoints) if checkpoints else None
    if checkpoint:
        state.alpha[:] = checkpoint["alpha"]
        for name, value in checkpoint.about["control"].items():
            state.control[name] = value
    elif warm_up:
        warm_up(state)
    own = {
        "address": settings.ray_address,
        "dataset": str(dataset),
        "job": f"{job}-{plan.number}",
        "spec": plan.spec.model_dump(),
        "number": plan.number,
        "at_once": plan.at_once,
        "passes_before": plan.passes_before,
        "checkpoints": checkpoints and str(checkpoints),
        "resume": checkpoint and str(checkpoint.path),
        "last_checkpoint": checkpoint.about["number"] if checkpoint else 0,
        "has_alpha": bool(checkpoint) or bool(state.w.any()),
    }
    told = {"lane": running_lanes(plan), "distances": None, "cluster": own}
    (directory / RUN_FILE).write_text(json.dumps(told))
    return ProcessRun(directory, job_dir, settings.stall_seconds, {"trainer": PROCESS}), checkpoint
