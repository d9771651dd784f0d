"""Prepares a plan's run where the plan says: in this process, in processes of this machine, or on a cluster.

No caller of this module asks in which of the three places a run is.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.dataset.shards import check_here, shards_of
from streamsvm.service.cluster.nodes.connecting import FOR_GOOD, check_ray
from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.plan.run_file import running_lanes
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import DatasetCorrupt, OutOfSpace, ValuesOverflow
from streamsvm.storage.machine.child import child_environment
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


# Codes of errors that another attempt at a run would meet again.
LASTING = (DatasetCorrupt.code, OutOfSpace.code, ValuesOverflow.code, *FOR_GOOD)
FORGETTING = "streamsvm.service.cluster.nodes.ray_machines"


def launch(
    plan: JobPlan,
    settings: Settings,
    name: str,
    directory: Path,
    job_dir: Path,
    dataset: Path,
    checkpoints: Path | None,
    begins: Callable[[State], None] | None,
    is_on_disk: bool,
    is_inline: bool = False,
) -> tuple[Run, Checkpoint | None]:
    """Prepare a run, which the caller starts; return the run and the checkpoint from which it goes on, or None.

    name         name of the job for the machines of a cluster
    directory    the run's own directory, still to be made
    job_dir      directory for history and log
    checkpoints  directory where the run finds and writes checkpoints; None: it has none
    begins       function that fills the state if there is no checkpoint; None: the state stays zero
    is_on_disk   the run's directory is on a disk, because memory has no room
    is_inline    train in this process, without starting others

    Raises ServiceError: dataset_changed; ray_missing, ray_address.
    """
    if plan.spec.machines is not None:
        return cluster_run(plan, directory, job_dir, dataset, name, settings, checkpoints, begins)
    checkpoint = prepare_run(directory, plan, dataset, checkpoints, begins, is_on_disk=is_on_disk and not is_inline)
    if is_inline:
        # Slow to import, and not needed by others.
        from streamsvm.service.processes.inline_run import InlineRun  # noqa: PLC0415

        return InlineRun(directory, job_dir), checkpoint
    return ProcessRun(directory, job_dir, settings.stall_seconds), checkpoint


def forget_run(record: Mapping[str, Any], settings: Settings) -> None:
    """Have a cluster's machines remove their files of a job that failed or was cancelled, without waiting for it."""
    if record["spec"].get("machines") is None or settings.ray_address is None:
        return
    command = [sys.executable, "-m", FORGETTING, settings.ray_address, record["id"]]
    options = {"env": child_environment(), "check": False, "start_new_session": True}
    threading.Thread(target=subprocess.run, args=(command,), kwargs=options, daemon=True).start()
