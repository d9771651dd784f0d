"""The coordinator of a job on several machines; it reports as a trainer does.

python -m streamsvm.service.cluster.process RUN_DIRECTORY
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from streamsvm.service.cluster.dataset.shards import Shard, shards_of
from streamsvm.service.cluster.nodes.connecting import connect, nodes_of
from streamsvm.service.cluster.nodes.ray_machines import RayMachines
from streamsvm.service.cluster.rounds.convergence import has_whole_steps
from streamsvm.service.cluster.rounds.coordinator import Coordinator
from streamsvm.service.cluster.rounds.gathering import bring_alpha, bring_held_out
from streamsvm.service.cluster.rounds.machines import Rules
from streamsvm.service.cluster.rounds.messages import Begin
from streamsvm.service.cluster.rounds.newton import newton_for
from streamsvm.service.cluster.rounds.pool import pool_for
from streamsvm.service.cluster.rounds.reporting import Reporter
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.machine.child import die_with_parent, leave
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.checkpoint import open_checkpoint
from streamsvm.storage.run.failure import leave_word, say
from streamsvm.storage.run.state import KEPT, RUN_FILE, State, open_state
from streamsvm.trainer.checkpoints import Slots
from streamsvm.trainer.shared_state import HandedBack
from streamsvm.trainer.updates.model_weights import ModelWeights

FAILED = 11  # exit code; what is the matter lies beside


def main(directory: str) -> int:
    """Body of the process."""
    die_with_parent()
    run = Path(directory)
    # Ray's output goes into the log.
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    told = json.loads((run / RUN_FILE).read_bytes())["cluster"]
    try:
        return _coordinate(run, told, reports)
    except ServiceError as error:
        leave_word(run, error.code, error.message, error.hint)
        say(error.message)
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
    plan = replace(plan_job(spec, manifest), number=told["number"], at_once=told["at_once"])
    maps = fitted_maps(plan.maps, Dataset(dataset))
    own = told["spec"], told["number"], told["at_once"], count, maps
    begins = [Begin(told["job"], shard.name, *own, shard.rows) for shard in shards]
    rules = Rules(
        **told["rules"],
        whole_steps=has_whole_steps(spec, manifest),
        rounds_before=int(control["finished_passes"]),
        seconds_before=float(control["elapsed_seconds"]),
    )
    pool = pool_for(plan, dataset, maps, run)
    first_alpha = state.alpha if told["has_alpha"] else None
    with RayMachines(ray, dataset, shards, begins, told["checkpoint_seconds"], first_alpha) as machines:
        reporter = Reporter(state, told, machines, reports)
        newton = newton_for(plan, rules, count, reporter.show_step)
        control["committed_step"] = 1
        coordinator = Coordinator(
            machines, rules, told["width"], told["lanes"], told["axes"][0], reporter.report,
            lambda: bool(control["stop"]), reporter.attend, pool, newton, _model(told),
        )  # fmt: skip
        try:
            coordinator.run()
            state.w[:] = coordinator.model_w
            bring_held_out(machines, run, plan.n_rows, plan.places_with_folds, reporter.attend_all)
            if told["checkpoints"]:
                arrays = {"w": coordinator.w, **coordinator.model.resumable()}
                _leave_checkpoint(machines, shards, state, arrays, told, run, reporter.attend_all)
        except HandedBack:
            return HandedBack.exit_code
        machines.forget()
        control["training_done"] = 1
        reports.write(json.dumps({"result": reporter.results(coordinator)}) + "\n")
    return 0


def _model(told: dict[str, Any]) -> ModelWeights:
    """The w of models that the checkpoint has which this run goes on from."""
    if told["resume"] is None:
        return ModelWeights()
    checkpoint = open_checkpoint(Path(told["resume"]))
    model = ModelWeights({name: checkpoint[name] for name in checkpoint.names if name.startswith("model")})
    model.settle(np.zeros(told["lanes"], bool), is_over=False)
    return model


def _leave_checkpoint(
    machines: RayMachines,
    shards: Sequence[Shard],
    state: State,
    arrays: Mapping[str, Array],
    told: dict[str, Any],
    run: Path,
    attend: Callable[[], None],
) -> None:
    """Leave a checkpoint of alpha and `arrays` for jobs that continue this one or start from it.

    The job succeeds without one.
    """
    try:
        bring_alpha(machines, [shard.rows for shard in shards], state.alpha, attend)
    except ServiceError as error:
        say(f"no checkpoint is left: {error}")
        return
    control = {name: state.control[name] for name in KEPT}
    slots = Slots(run, told["checkpoints"], 0.0, told["last_checkpoint"])
    slots.write({"pass": control["pass"] + 1, "control": control}, {**arrays, "alpha": state.alpha}, is_sure=True)


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code:
        sys.exit(code)
    leave()
