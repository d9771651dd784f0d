"""Reports of a job on several machines: its control page, a line of history a round, its results."""

import json
import time
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from streamsvm.service.cluster.rounds.messages import COUNTED
from streamsvm.storage.run.slowdowns import bits_of, told
from streamsvm.storage.run.state import SOLVER_PHASES, State
from streamsvm.trainer.problem.objective import certificate_of, relative_gap
from streamsvm.trainer.report import told_step
from streamsvm.trainer.shared_state import HandedBack, note_step, show_figures
from streamsvm.trainer.updates.convergence import lane_result
from streamsvm.trainer.updates.progress import NewtonStep

if TYPE_CHECKING:
    from streamsvm.service.cluster.nodes.ray_machines import RayMachines
    from streamsvm.service.cluster.rounds.coordinator import Coordinator


class Reporter:
    """`attend` while the machines work, `report` after each round."""

    def __init__(self, state: State, told: dict[str, Any], machines: "RayMachines", reports: TextIO) -> None:
        self._reports = reports
        self._state, self._control, self._lanes = state, state.control, state.lanes
        self._told, self._machines = told, machines
        self._before = {name: state.control[name] for name in (*COUNTED, "newton_steps", "scans")}
        self._slowdowns = 0  # that have been told

    def attend(self, come: dict[int, Any], silence: float = 0.0) -> None:
        """Give a sign of life before so many seconds without one.

        If the worker has to end, have machines keep their alpha, and raise HandedBack.
        """
        self._control["trainer_heartbeat"] = self._control["reader_heartbeat"] = time.monotonic() + silence
        if self._control["hand_back"]:
            self._machines.keep(come, at_once=True)
            raise HandedBack

    def attend_all(self) -> None:
        """`attend`, when all machines have come to the end."""
        self.attend(dict.fromkeys(range(len(self._machines))))

    def show_step(self, step: NewtonStep) -> None:
        """Show a Newton step while the round goes on."""
        updates = self._control["updates"]
        note_step(self._state, self._in_job(step))
        show_figures(self._state, step.found)
        self._control["updates"], self._control["elapsed_seconds"] = updates, step.elapsed_seconds
        self._enter("newton")

    def _in_job(self, step: NewtonStep) -> NewtonStep:
        """The step as it counts in all attempts."""
        number, scans = (int(self._before[name]) for name in ("newton_steps", "scans"))
        return replace(step, number=number + step.number, scans=scans + step.scans)

    def _enter(self, phase: str) -> None:
        self._control["solver_phase"] = 1 + SOLVER_PHASES.index(phase)

    def report(self, now: "Coordinator") -> None:
        """Report the round that has ended."""
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

    def results(self, now: "Coordinator") -> list[dict[str, Any]]:
        """The result of each lane."""
        return [self._result(now, lane, by) for lane, by in enumerate(now.convergence.converged.tolist())]

    def _line(self, now: "Coordinator", page: dict[str, Any], worst: int) -> dict[str, Any]:
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
    def _found(now: "Coordinator") -> int:
        """Faster ways that a machine has given up, or the coordinator, as bits."""
        given_up = (int(shard.counts.get("slowdowns", 0)) for shard in now.shards)
        own = {"pool_without_room"} if now.lacked_room else set()
        return reduce(or_, given_up, bits_of(own | (now.newton.slowdowns if now.newton else set())))

    def _new_slowdowns(self) -> dict[str, Any]:
        before, self._slowdowns = self._slowdowns, int(self._control["slowdowns"])
        new = told(self._slowdowns & ~before)
        return {"slowdowns": new} if new else {}

    @staticmethod
    def _figures(now: "Coordinator", lane: int) -> dict[str, float | None]:
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
        # Before the first look there is no P.
        return {name: float(value) if np.isfinite(value) else None for name, value in figures.items()}

    def _machine(self, now: "Coordinator", number: int) -> dict[str, Any]:
        """`seconds`: of its last round; `waited_seconds`: for others, in all; `sent_bytes`: in all."""
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
    def _result(now: "Coordinator", lane: int, by: int) -> dict[str, Any]:
        found = now.convergence.certificate
        assert found is not None, "a job ends with a look"
        of_lane = (float(figures[lane]) for figures in vars(found).values())
        return lane_result(by, now.convergence.stop_reason, now.round, certificate_of(*of_lane))
