"""Prepares a plan's run where the plan says: in this process, in processes of this machine, or on a cluster.

No caller of this module asks in which of the three places a run is.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamsvm.service.cluster.cluster_run import cluster_run
from streamsvm.service.cluster.nodes.connecting import FOR_GOOD
from streamsvm.service.jobs.lanes.runner import Run
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import DatasetCorrupt, OutOfSpace, ValuesOverflow
from streamsvm.storage.machine.child import child_environment
from streamsvm.storage.run.checkpoint import Checkpoint
from streamsvm.storage.run.state import State

# Codes of errors that another attempt at a run would meet again.
LASTING = (DatasetCorrupt.code, OutOfSpace.code, ValuesOverflow.code, *FOR_GOOD)
FORGETTING = "streamsvm.service.cluster.nodes.agents"


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
