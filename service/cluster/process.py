"""The process of a job's coordinator on several machines; it reports to the worker as a trainer does.

python -m streamsvm.service.cluster.process RUN_DIRECTORY
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from streamsvm.reader.certificate.kept_values import HeldOut
from streamsvm.service.cluster.dataset.shards import Shard, shards_of
from streamsvm.service.cluster.machine.shard_run import Begin
from streamsvm.service.cluster.nodes.connecting import connect, nodes_of
from streamsvm.service.cluster.nodes.ray_machines import RayMachines
from streamsvm.service.cluster.rounds.convergence import RoundConvergence
from streamsvm.service.cluster.rounds.coordinator import Coordinator
from streamsvm.service.cluster.rounds.newton import Newton
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.memory import spills
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.jobs.plan.run_file import run_file
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.machine.child import die_with_parent, leave
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import count_rows, written_ids
from streamsvm.storage.run.checkpoint import open_checkpoint
from streamsvm.storage.run.failure import leave_word, say
from streamsvm.storage.run.figures import OF_TASK, figures_of
from streamsvm.storage.run.slowdowns import bits_of, told
from streamsvm.storage.run.state import KEPT, RUN_FILE, SOLVER_PHASES, State, open_state
from streamsvm.trainer.checkpoints import CheckpointSlots
from streamsvm.trainer.distributed.messages import COUNTED
from streamsvm.trainer.distributed.pool import Pool
from streamsvm.trainer.problem.objective import certificate_of
from streamsvm.trainer.report import told_step
from streamsvm.trainer.shared_state import HandedBack, note_step, show_figures
from streamsvm.trainer.solvers import settings_of
from streamsvm.trainer.updates.convergence import lane_result
from streamsvm.trainer.updates.model_weights import ModelWeights
from streamsvm.trainer.updates.progress import NewtonStep, PassProgress

_SHARE_OF_DISK = 0.25  # of the free space, for a pool: rows may be there twice, and other programs need space, too
_PIECE_ROWS = 1 << 20  # number of rows whose dual variables are sent at a time
FAILED = 11  # exit code; the error is in the run directory


class Reporter:
    """Writes the coordinator's figures for the worker: `attend` while machines work, `report` after each round.

    number, passes_before  of the plan: the first lane, and the passes of the lanes before it
    """

    def __init__(self, state: State, number: int, passes_before: int, machines: RayMachines, reports: TextIO) -> None:
        self._state, self._control, self._reports = state, state.control, reports
        self._number, self._passes_before, self._machines = number, passes_before, machines
        self._before = {name: state.control[name] for name in (*COUNTED, "newton_steps", "scans")}
        self._slowdowns = 0  # bits of slowdowns that are in the history
        self._steps: list[NewtonStep] = []  # Newton steps of the round

    def attend(self, come: Mapping[int, Any], silence: float = 0.0) -> None:
        """Give a heartbeat, which also covers the next `silence` seconds.

        If the worker asks to hand back, have machines save their alpha, and raise HandedBack.
        """
        self._control["trainer_heartbeat"] = self._control["reader_heartbeat"] = time.monotonic() + silence
        if self._control["hand_back"]:
            self._machines.keep(come.keys(), at_once=True)
            raise HandedBack

    def attend_all(self) -> None:
        """Call `attend` when all machines have reported."""
        self.attend(dict.fromkeys(range(len(self._machines))))

    def show_step(self, step: NewtonStep) -> None:
        """Show a Newton step on the control page while the round goes on; the history lists it with the round."""
        number, scans = (int(self._before[name]) for name in ("newton_steps", "scans"))  # of earlier attempts
        step = replace(step, number=number + step.number, scans=scans + step.scans)
        self._steps.append(step)
        note_step(self._state, step)
        self._show(replace(step.found, updates=int(self._control["updates"])), step.elapsed_seconds, "newton")

    def report(self, now: Coordinator) -> None:
        """Report the round that has ended, on the control page and in the history."""
        figures, shards = now.convergence, [shard.counts for shard in now.shards]
        counted = {name: self._before[name] + sum(counts.get(name, 0) for counts in shards) for name in COUNTED}
        counted["updates"] += now.pooled_updates
        free, elapsed = int(sum(counts.get("free_rows", 0) for counts in shards)), figures.elapsed_seconds
        progress = figures.progress(free, int(counted["updates"]))
        self._show(progress, elapsed, "sweep")
        page = {"finished_passes": figures.round, "pass": figures.round, "slowdowns": _slowdowns(now)}
        page["sweeps_made"] = max(int(counts.get("sweeps_made", 0)) for counts in shards)
        for name, value in {**counted, **page}.items():
            self._control[name] = value
        lanes = [{"lane": self._number + k, **_told(lane)} for k, lane in enumerate(progress.lanes)]
        steps, self._steps = [told_step(step, self._number) for step in self._steps], []
        new, self._slowdowns = told(page["slowdowns"] & ~self._slowdowns), page["slowdowns"]
        line = {
            **counted,
            "free_rows": free,
            "elapsed_seconds": elapsed,
            "pass": self._passes_before + figures.round,
            "lane": self._number,
            "rows_unvisited": 0,
            **_told(progress),
            **({"lanes": lanes} if lanes else {}),
            **({"newton": steps} if steps else {}),
            "step": float(now.step.min()),
            "pooled_rows": now.pooled_rows,
            "machines": [self._machine(now, number) for number in range(len(shards))],
            **({"slowdowns": new} if new else {}),
        }
        self._reports.write(json.dumps(line) + "\n")

    def results(self, now: Coordinator) -> None:
        """Report the result of each lane, by the certificate with which the job has ended."""
        figures, results = now.convergence, []
        for lane, by in enumerate(figures.converged.tolist()):
            of_lane = (float(each[lane]) for each in vars(figures.certificate).values())
            results.append(lane_result(by, figures.stop_reason, figures.round, certificate_of(*of_lane)))
        self._reports.write(json.dumps({"result": results}) + "\n")

    def _show(self, progress: PassProgress, elapsed: float, phase: str) -> None:
        show_figures(self._state, progress)
        self._control["elapsed_seconds"] = elapsed
        self._control["solver_phase"] = 1 + SOLVER_PHASES.index(phase)

    def _machine(self, now: Coordinator, number: int) -> dict[str, Any]:
        """Describe a machine: `seconds` of the last round; `waited_seconds` for others, and `sent_bytes`, in all."""
        shard, is_late = now.shards[number], now.shards[number].round < now.convergence.round
        return {
            "machine": number,
            "node": self._machines.node(number)[:12],
            "state": "lost" if self._machines.is_lost(number) else "late" if is_late else "in",
            "seconds": shard.seconds,
            "waited_seconds": shard.waited,
            "sent_bytes": shard.sent_bytes,
            "read_bytes": shard.counts.get("read_bytes", 0),
            "resident_bytes": shard.counts.get("resident_bytes", 0),
        }


def _slowdowns(now: Coordinator) -> int:
    """Return the slowdowns of all machines and of the coordinator, as bits."""
    own = {"pool_without_room"} if now.lacked_room else set()
    given_up = (int(shard.counts.get("slowdowns", 0)) for shard in now.shards)
    return reduce(or_, given_up, bits_of(own | (now.newton.slowdowns if now.newton else set())))


def _told(found: PassProgress) -> dict[str, float | None]:
    """Return the figures as the history has them; before the first LOOK, P is not known."""
    return {name: value if np.isfinite(value) else None for name, value in figures_of(found, *OF_TASK).items()}


def main(directory: str) -> int:
    """Body of the process."""
    die_with_parent()
    run = Path(directory)
    # Ray's output goes into the log.
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    about = json.loads((run / RUN_FILE).read_bytes())["cluster"]
    try:
        return _coordinate(run, about, reports)
    except ServiceError as error:
        leave_word(run, error.code, error.message, error.hint)
        say(error.message)
        return FAILED


def _coordinate(run: Path, about: dict[str, Any], reports: TextIO) -> int:
    spec, dataset = JobSpec.model_validate(about["spec"]), Path(about["dataset"])
    manifest = read_manifest(dataset)
    planned = {name: about[name] for name in ("number", "at_once", "passes_before")}
    plan = replace(plan_job(spec, manifest), **planned)
    state = open_state(run, plan.n_rows, plan.width, plan.tasks.width)
    control = state.control
    control["trainer_heartbeat"] = control["reader_heartbeat"] = time.monotonic()
    ray = connect(about["address"])
    count = spec.machines
    if count == "all":
        count = len(manifest.parts) or len(nodes_of(ray))
    if not count:
        raise ServiceError("machines_range", "the cluster has no node with a core", "Add nodes.")
    shards = shards_of(manifest, count)
    maps = fitted_maps(plan.maps, Dataset(dataset))
    own = spec, plan.number, plan.at_once, count, maps
    begins = [Begin(about["job"], shard.name, *own, shard.rows) for shard in shards]
    convergence = RoundConvergence(
        spec, len(plan.running), lambda: bool(control["stop"]),
        int(control["finished_passes"]), float(control["elapsed_seconds"]),
    )  # fmt: skip
    first_alpha = state.alpha if about["has_alpha"] else None
    with RayMachines(ray, dataset, shards, begins, spec.checkpoint_seconds, first_alpha) as machines:
        reporter = Reporter(state, plan.number, plan.passes_before, machines, reports)
        newton = Newton(plan, convergence, count, reporter.show_step) if spec.combine != "average" else None
        control["committed_step"] = 1
        coordinator = Coordinator(
            machines, plan, convergence, reporter.report, reporter.attend,
            pool_for(plan, dataset, maps, run), newton, model_of(about["resume"], len(plan.running)),
        )  # fmt: skip
        try:
            coordinator.run()
            state.w[:] = coordinator.model_w
            bring_held_out(machines, run, plan.n_rows, plan.places_with_folds, reporter.attend_all)
            if about["checkpoints"]:
                arrays = {"w": coordinator.w, **coordinator.model.resumable()}
                slots = CheckpointSlots(run, about["checkpoints"], 0.0, about["last_checkpoint"])
                leave_checkpoint(machines, shards, state, arrays, slots, reporter.attend_all)
        except HandedBack:
            return HandedBack.exit_code
        machines.forget()
        control["training_done"] = 1
        reporter.results(coordinator)
    return 0


def pool_for(plan: JobPlan, dataset: Path, maps: FeatureMaps, directory: Path) -> Pool | None:
    """Return the Pool of a job, on the dataset's disk, or in memory if the job may not spill; None: no rows are pooled.

    Where no row rests at a bound, as with logistic loss, the pool would have to hold all rows: such a job has none.
    """
    if plan.spec.combine == "average" or not plan.spec.loss_kind.has_rest:
        return None
    on_disk = spills(plan.spec)
    place = dataset.parent if on_disk else directory
    most = int(_SHARE_OF_DISK * shutil.disk_usage(place).free)
    # Rows may be there twice.
    most = most if on_disk else min(most, plan.cache.cache_bytes // 2)
    own = {**run_file(plan, dataset)["trainer"], "resume": None, "checkpoints": None, "spill_directory": str(place)}
    return Pool(settings_of(own, maps), directory, most)


def model_of(checkpoint: str | None, lanes: int) -> ModelWeights:
    """Return the w of models that the checkpoint of this run has; an empty ModelWeights without a checkpoint."""
    if checkpoint is None:
        return ModelWeights()
    kept = open_checkpoint(Path(checkpoint))
    model = ModelWeights({name: kept[name] for name in kept.names if name.startswith("model")})
    model.settle(np.zeros(lanes, bool), is_over=False)
    return model


def leave_checkpoint(
    machines: RayMachines,
    shards: Sequence[Shard],
    state: State,
    arrays: Mapping[str, Array],
    slots: CheckpointSlots,
    attend: Callable[[], None],
) -> None:
    """Write a checkpoint of alpha and `arrays`, for jobs that continue this job or start from it.

    If a machine is lost meanwhile, no checkpoint is written: the job succeeds without one.
    """
    try:
        bring_alpha(machines, [shard.rows for shard in shards], state.alpha, attend)
    except ServiceError as error:
        say(f"no checkpoint is left: {error}")
        return
    control = {name: state.control[name] for name in KEPT}
    slots.write({"pass": control["pass"] + 1, "control": control}, {**arrays, "alpha": state.alpha}, is_sure=True)


def bring_held_out(
    machines: RayMachines, run: Path, n_rows: int, places: Sequence[int], attend: Callable[[], None]
) -> None:
    """Write the rows that the lanes at indices `places` left out of training, as the reader of one machine does.

    attend  is called again and again, and may raise
    Raises ServiceError machine_left.
    """
    held = HeldOut(run, n_rows, places)
    for place in places:
        for number in range(len(machines)):
            attend()
            row_id, target, decision_values, weight = machines.ask(number, "held_out", place)
            held.put(place, row_id, target, decision_values)
            if weight is not None:
                held.put_weights(row_id, weight)


def bring_alpha(
    machines: RayMachines,
    rows: Sequence[Array],
    alpha: Array,
    attend: Callable[[], None],
    piece_rows: int = _PIECE_ROWS,
) -> None:
    """Fill alpha, (n_rows,) or (n_rows, lanes), from the machines; rows: for each machine, runs of the ids of its rows.

    attend  is called again and again, and may raise
    Raises ServiceError machine_left.
    """
    for number, runs in enumerate(rows):
        for start in range(0, count_rows(runs), piece_rows):
            attend()
            piece = machines.ask(number, "alpha", slice(start, start + piece_rows))
            alpha[written_ids(runs, np.arange(start, start + len(piece)))] = piece


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code:
        sys.exit(code)
    leave()
