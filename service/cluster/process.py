"""The process of a job on several machines: coordinates them, and says what a trainer says.

python -m service.cluster.process RUN_DIRECTORY
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from service.cluster.connecting import connect, nodes_of
from service.cluster.coordinator import Coordinator
from service.cluster.held_rows import bring_held_out
from service.cluster.messages import Begin
from service.cluster.parts import Rules
from service.cluster.pool import pool_for
from service.cluster.ray_machines import RayMachines
from service.cluster.reporting import Reporter
from service.cluster.shards import shards_of
from service.errors import ServiceError
from service.jobs.features import fitted_maps
from service.jobs.problem import plan_job
from service.jobs.spec import JobSpec
from storage.child import die_with_parent, leave
from storage.dataset import Dataset
from storage.failure import leave_word
from storage.manifest import read_manifest
from storage.state import RUN_FILE, open_state
from trainer.link import HandedBack

FAILED = 11  # exit code; what is the matter lies beside


def main(directory: str) -> int:
    """Body of the process."""
    die_with_parent()
    run = Path(directory)
    # What Ray prints is for the log.
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    told = json.loads((run / RUN_FILE).read_bytes())["cluster"]
    try:
        return _coordinate(run, told, reports)
    except ServiceError as error:
        leave_word(run, error.code, error.message, error.hint)
        print(error.message, file=sys.stderr)
        return FAILED


def _coordinate(run: Path, told: dict[str, Any], reports: TextIO) -> int:
    state = open_state(run, told["n_rows"], told["width"], *told["axes"])
    control = state.control
    control["trainer_heartbeat"] = control["reader_heartbeat"] = time.monotonic()
    ray = connect(told["address"])
    dataset = Path(told["dataset"])
    count = told["machines"]
    manifest = read_manifest(dataset)
    if count == "all":
        count = len(manifest.parts) or len(nodes_of(ray))
    if not count:
        raise ServiceError("machines_range", "the cluster has no node with a core", "Add nodes.")
    shards = shards_of(manifest, count)
    spec = JobSpec.model_validate(told["spec"])
    maps = fitted_maps(spec, Dataset(dataset))
    own = told["spec"], told["number"], told["at_once"], count, maps
    begins = [Begin(told["job"], shard.name, *own, shard.rows) for shard in shards]
    rules = Rules(**told["rules"])
    plan = replace(plan_job(spec, manifest), number=told["number"], at_once=told["at_once"])
    pool = pool_for(plan, dataset, maps, run)
    with RayMachines(ray, dataset, shards, begins, told["checkpoint_seconds"]) as machines:
        reporter = Reporter(state, told, machines, reports)
        control["committed_step"] = 1
        coordinator = Coordinator(
            machines, rules, told["width"], told["lanes"], told["axes"][0], reporter.report,
            lambda: bool(control["stop"]), reporter.attend, pool,
        )  # fmt: skip
        try:
            coordinator.run()
        except HandedBack:
            return HandedBack.exit_code
        state.w[:] = coordinator.w
        if plan.places_with_folds:
            machines.keep(range(len(machines)), at_once=True)
            bring_held_out(machines, run, plan.n_rows, plan.places_with_folds)
        machines.forget()
        control["training_done"] = 1
        reports.write(json.dumps({"result": reporter.results(coordinator)}) + "\n")
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code:
        sys.exit(code)
    leave()
