"""The process of a job's coordinator on several machines; it reports to the worker as a trainer does.

python -m streamsvm.service.cluster.process RUN_DIRECTORY
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from streamsvm.reader.certificate.folds import HeldOut
from streamsvm.service.cluster.dataset.shards import Shard, shards_of
from streamsvm.service.cluster.nodes.connecting import connect, nodes_of
from streamsvm.service.cluster.nodes.ray_machines import RayMachines
from streamsvm.service.cluster.rounds.convergence import has_whole_steps
from streamsvm.service.cluster.rounds.coordinator import Coordinator
from streamsvm.service.cluster.rounds.messages import COUNTED, Begin, Rules
from streamsvm.service.cluster.rounds.newton import newton_for
from streamsvm.service.cluster.rounds.pool import pool_for
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.machine.child import die_with_parent, leave
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import count_rows, written_ids
from streamsvm.storage.run.checkpoint import open_checkpoint
from streamsvm.storage.run.failure import leave_word, say
from streamsvm.storage.run.slowdowns import bits_of, told
from streamsvm.storage.run.state import KEPT, RUN_FILE, SOLVER_PHASES, State, open_state
from streamsvm.trainer.checkpoints import CheckpointSlots
from streamsvm.trainer.problem.objective import certificate_of, relative_gap
from streamsvm.trainer.report import told_step
from streamsvm.trainer.shared_state import HandedBack, note_step, show_figures
from streamsvm.trainer.updates.convergence import lane_result
from streamsvm.trainer.updates.model_weights import ModelWeights
from streamsvm.trainer.updates.progress import NewtonStep


class Reporter:
    """Writes the coordinator's figures for the worker: `attend` while machines work, `report` after each round."""

    def __init__(self, state: State, told: dict[str, Any], machines: RayMachines, reports: TextIO) -> None:
        self._reports = reports
        self._state, self._control, self._lanes = state, state.control, state.lanes
        self._told, self._machines = told, machines
        self._before = {name: state.control[name] for name in (*COUNTED, "newton_steps", "scans")}
        self._slowdowns = 0  # bits of slowdowns that are in the history

    def attend(self, come: dict[int, Any], silence: float = 0.0) -> None:
        """Give a heartbeat, which also covers the next `silence` seconds.

        If the worker asks to hand back, have machines save their alpha, and raise HandedBack.
        """
        self._control["trainer_heartbeat"] = self._control["reader_heartbeat"] = time.monotonic() + silence
        if self._control["hand_back"]:
            self._machines.keep(come, at_once=True)
            raise HandedBack

    def attend_all(self) -> None:
        """Call `attend` when all machines have reported."""
        self.attend(dict.fromkeys(range(len(self._machines))))

    def show_step(self, step: NewtonStep) -> None:
        """Show a Newton step on the control page while the round goes on."""
        updates = self._control["updates"]
        note_step(self._state, self._in_job(step))
        show_figures(self._state, step.found)
        self._control["updates"], self._control["elapsed_seconds"] = updates, step.elapsed_seconds
        self._enter("newton")

    def _in_job(self, step: NewtonStep) -> NewtonStep:
        """Return the step with the numbers of steps and scans of earlier attempts added."""
        number, scans = (int(self._before[name]) for name in ("newton_steps", "scans"))
        return replace(step, number=number + step.number, scans=scans + step.scans)

    def _enter(self, phase: str) -> None:
        self._control["solver_phase"] = 1 + SOLVER_PHASES.index(phase)

    def report(self, now: Coordinator) -> None:
        """Report the round that has ended, on the control page and in the history."""
        self._enter("sweep")
        worst = int(np.argmax(np.nan_to_num(now.convergence.M_plus - now.convergence.M_minus, nan=-np.inf)))
        page = {
            "finished_passes": now.round,
            "pass": now.round,
            "M_plus": now.convergence.M_plus[worst],
            "M_minus": now.convergence.M_minus[worst],
            "dual_objective": now.D[worst],
            "primal_bound": now.convergence.P[worst],
            "free_rows": int(sum(shard.counts.get("free_rows", 0) for shard in now.shards)),
            "sweeps_made": max(int(shard.counts.get("sweeps_made", 0)) for shard in now.shards),
            "elapsed_seconds": now.convergence.elapsed_seconds,
            **{name: self._before[name] + sum(shard.counts.get(name, 0) for shard in now.shards) for name in COUNTED},
        }
        page["updates"] += now.pooled_updates
        page["slowdowns"] = self._found(now)
        for name, value in page.items():
            self._control[name] = type(self._control[name])(value)
        of_lanes = {
            "M_plus": now.convergence.M_plus,
            "M_minus": now.convergence.M_minus,
            "dual_objective": now.D,
            "primal_bound": now.convergence.P,
        }
        for name, figures in of_lanes.items():
            self._lanes[name][: len(now.D)] = figures
        self._reports.write(json.dumps(self._line(now, page, worst)) + "\n")

    def results(self, now: Coordinator) -> list[dict[str, Any]]:
        """Return the result of each lane."""
        return [self._result(now, lane, by) for lane, by in enumerate(now.convergence.converged.tolist())]

    def _line(self, now: Coordinator, page: dict[str, Any], worst: int) -> dict[str, Any]:
        lanes = [self._figures(now, lane) for lane in range(len(now.D))]
        first = self._told["number"]
        steps = [told_step(self._in_job(step), first) for step in now.newton.take_shown()] if now.newton else []
        return {
            **{name: page[name] for name in ("free_rows", "elapsed_seconds", *COUNTED)},
            "pass": self._told["passes_before"] + now.round,
            "lane": first,
            "rows_unvisited": 0,
            **lanes[worst],
            **({"lanes": [{"lane": first + k, **each} for k, each in enumerate(lanes)]} if len(lanes) > 1 else {}),
            **({"newton": steps} if steps else {}),
            "step": float(now.step.min()),
            "pooled_rows": now.pooled_rows,
            "machines": [self._machine(now, number) for number in range(len(now.shards))],
            **self._new_slowdowns(),
        }

    @staticmethod
    def _found(now: Coordinator) -> int:
        """Return the slowdowns of all machines and of the coordinator, as bits."""
        given_up = (int(shard.counts.get("slowdowns", 0)) for shard in now.shards)
        own = {"pool_without_room"} if now.lacked_room else set()
        return reduce(or_, given_up, bits_of(own | (now.newton.slowdowns if now.newton else set())))

    def _new_slowdowns(self) -> dict[str, Any]:
        before, self._slowdowns = self._slowdowns, int(self._control["slowdowns"])
        new = told(self._slowdowns & ~before)
        return {"slowdowns": new} if new else {}

    @staticmethod
    def _figures(now: Coordinator, lane: int) -> dict[str, float | None]:
        figures = {
            "m_plus": now.convergence.M_plus[lane],
            "m_minus": now.convergence.M_minus[lane],
            "gap": now.convergence.M_plus[lane] - now.convergence.M_minus[lane],
            "dual_objective": now.D[lane],
            "primal_bound": now.convergence.P[lane],
            "relative_gap_bound": relative_gap(now.convergence.P[lane], now.D[lane])
            if np.isfinite(now.convergence.P[lane])
            else np.nan,
        }
        # Before the first LOOK, P is not known.
        return {name: float(value) if np.isfinite(value) else None for name, value in figures.items()}

    def _machine(self, now: Coordinator, number: int) -> dict[str, Any]:
        """Describe a machine: `seconds` of the last round; `waited_seconds` for others, and `sent_bytes`, in all."""
        shard = now.shards[number]
        return {
            "machine": number,
            "node": self._machines.node(number)[:12],
            "state": "lost" if self._machines.is_lost(number) else "late" if shard.round < now.round else "in",
            "seconds": shard.seconds,
            "waited_seconds": shard.waited,
            "sent_bytes": shard.sent_bytes,
            "read_bytes": shard.counts.get("read_bytes", 0),
            "resident_bytes": shard.counts.get("resident_bytes", 0),
        }

    @staticmethod
    def _result(now: Coordinator, lane: int, by: int) -> dict[str, Any]:
        found = now.convergence.certificate
        assert found is not None, "a job ends with a look"
        of_lane = (float(figures[lane]) for figures in vars(found).values())
        return lane_result(by, now.convergence.stop_reason, now.round, certificate_of(*of_lane))


_PIECE_ROWS = 1 << 20  # number of rows whose dual variables are sent at a time
FAILED = 11  # exit code; the error is in the run directory


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
    """Return the w of models that the checkpoint of this run has; an empty ModelWeights without a checkpoint."""
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
    """Write a checkpoint of alpha and `arrays`, for jobs that continue this job or start from it.

    If a machine is lost meanwhile, no checkpoint is written: the job succeeds without one.
    """
    try:
        bring_alpha(machines, [shard.rows for shard in shards], state.alpha, attend)
    except ServiceError as error:
        say(f"no checkpoint is left: {error}")
        return
    control = {name: state.control[name] for name in KEPT}
    slots = CheckpointSlots(run, told["checkpoints"], 0.0, told["last_checkpoint"])
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
            rows = machines.held_out(number, place)
            held.put(place, rows.row_id, rows.target, rows.decision_values)
            if rows.weight is not None:
                held.put_weights(rows.row_id, rows.weight)


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
            piece = machines.alpha(number, slice(start, start + piece_rows))
            alpha[written_ids(runs, np.arange(start, start + len(piece)))] = piece


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code:
        sys.exit(code)
    leave()
