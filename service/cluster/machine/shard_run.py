"""A reader and a trainer on a machine's shard, and their rounds.

alpha and C of reader and trainer are sigma times those of the whole problem (storage.run.rounds). Figures for the
coordinator are divided by sigma.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.certificate.folds import read_held_out, read_weights
from streamsvm.service.cluster.machine.shard_reading import DirectoryRemover
from streamsvm.service.cluster.rounds.change_kernel import add_step
from streamsvm.service.cluster.rounds.convergence import along_axis, dots, has_whole_steps
from streamsvm.service.cluster.rounds.messages import (
    COUNTED,
    NO_CHANGE,
    Begin,
    Change,
    ExportedRows,
    Found,
    HeldRows,
    OrderToMachine,
)
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.service.processes.run import PROCESSES, SHARD_TRAINER, ProcessRun, prepare_run
from streamsvm.service.processes.run_directories import has_room
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.files.arrays import load_array
from streamsvm.storage.machine.backoff import backoff_sleep
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import split
from streamsvm.storage.rows.row_runs import written_ids
from streamsvm.storage.run.rounds import (
    GIVEN,
    GIVEN_ALPHA,
    NEWTON_REPLY,
    NEWTON_REQUEST,
    TAKEN_ALPHA,
    Order,
    create_round,
)
from streamsvm.storage.run.state import RUN_FILE, State, open_state

# A pass ends at the job's targets if machines train alone, else once the gap of its rows has fallen to this share.
_ALONE, _IN_ROUNDS = {"share_of_gap": 0.0}, {"share_of_gap": 0.75, "tolerance": None, "relative_gap": None}
_NO_END = 1 << 62  # passes
_LESS = 1.0 - 2.0**-51  # a factor that makes up for rounding
_MODULES = {**PROCESSES, "trainer": SHARD_TRAINER}
_LOOK_SECONDS = 0.1  # between two looks at whether the processes live


class Running:
    """A run on the shard: call `found` and `take` in turn. Raises ServiceError (a process died), StorageError, OSError.

    alpha  (rows,) dual variables of the whole problem to begin with, feasible; None: zeros
    """

    def __init__(self, settings: Settings, begin: Begin, alpha: Array | None) -> None:
        self._sigma = float(begin.machines)
        self._plan = plan = _shard_plan(begin, read_manifest(settings.datasets / begin.shard))
        job_dir = settings.jobs / begin.job / begin.shard
        job_dir.mkdir(parents=True, exist_ok=True)
        place = settings.cache_dir if has_room(settings.cache_dir, plan.run_bytes) else job_dir
        # A new name each time: the process that removes the directory of an earlier run may still be waiting.
        self._directory = place / f"streamsvm-shard-{begin.job}-{begin.shard}-{secrets.token_hex(4)}"
        self._leftovers = DirectoryRemover(self._directory)
        begins = _beginning_at(alpha, self._sigma, plan)
        is_on_disk = place != settings.cache_dir
        prepare_run(self._directory, plan, settings.datasets / begin.shard, None, begins, begin.maps, is_on_disk)
        self._rows = begin.rows
        _tell_of_shard(self._directory, begin, has_whole_steps(plan.spec, plan.manifest))
        axis = plan.axes[0]
        self._state = open_state(self._directory, plan.n_rows, plan.width, *plan.axes)
        self._round = create_round(self._directory, plan.width, axis)
        self._lanes = len(plan.running)
        self._w = np.zeros_like(self._state.w)  # w at the beginning of the round
        # The machine's part of w, and what was reported of it: reports are rounded, and the rest is reported later.
        self._own, self._told = np.zeros_like(self._w), np.zeros_like(self._w)
        self._change = np.zeros_like(self._w)  # of the round
        self._untold = np.zeros_like(self._w)
        self._has_whole_steps = has_whole_steps(plan.spec, plan.manifest)
        self._dual_error = np.full(self._lanes, np.nan if self._has_whole_steps and alpha is not None else 0.0)
        self._order: Order | None = None
        self._is_in_newton = False  # a request of Newton steps has come
        self._run = ProcessRun(self._directory, job_dir, settings.stall_seconds, _MODULES)
        self._began = time.monotonic()
        self._run.start()

    def found(self) -> Found:
        """Wait for the end of a round, of a look, for exported rows, or for Newton steps; return the report."""
        self._wait()
        figures = self._round.lanes[: self._lanes]
        has_looked = self._order is Order.LOOK
        exported = self._exported_rows() if self._order is Order.GIVE else None
        newton = self._reply() if self._order is Order.NEWTON else None
        own_w = self._told_w()
        if own_w is not None:
            self._own[:] = self._told[:] = own_w
            self._change[:] = 0.0
        elif exported is None and newton is None:
            np.subtract(self._state.w, self._w, out=self._change)
            self._change /= self._sigma
        if exported is None and newton is None:
            np.subtract(self._own, self._told, out=self._untold)
            self._untold += self._change
            self._sent = Change.of(self._untold)
        else:
            self._sent = NO_CHANGE
        shown = self._state.lanes[: self._lanes]
        counts = {name: self._state.control[name] for name in (*COUNTED, "slowdowns", "sweeps_made")}
        return Found(
            change=self._sent,
            own_w=own_w,
            dual=self._dual(has_looked),
            **{name: figures[name] / self._sigma for name in ("linear", "square", "gap")},
            rate=figures["rate"].copy(),
            M_plus=shown["final_M_plus" if has_looked else "M_plus"].copy(),
            M_minus=shown["final_M_minus" if has_looked else "M_minus"].copy(),
            losses=self._losses() if has_looked else None,
            exported=exported,
            newton=newton,
            counts={
                **counts,
                "free_rows": float(figures["free_rows"].max()),
                "newton_equations": float(self._round.counts[0]["newton_equations"]),
            },
            seconds=time.monotonic() - self._began,
        )

    def take(self, answer: OrderToMachine) -> None:
        """Pass the coordinator's answer on to the reader and the trainer: w, alpha, step, and the next order."""
        if answer.newton is None:
            self._take_w(answer)
        else:
            (self._directory / NEWTON_REQUEST).write_bytes(answer.newton)
        if answer.alpha is not None:
            np.save(self._directory / TAKEN_ALPHA, _scaled(answer.alpha, self._sigma, self._plan))
        self._round.lanes["step"][: self._lanes] = answer.step
        self._state.lanes["converged_by"][: self._lanes] = answer.converged
        counts = self._round.counts[0]
        self._is_in_newton = answer.newton is not None
        counts["order"] = self._order = answer.order
        counts["most_bytes"], counts["most_sweeps"] = answer.most_bytes, answer.most_sweeps
        self._began = time.monotonic()
        counts["answered"] += 1
        if answer.order is Order.END:
            self._finish()

    def _take_w(self, answer: OrderToMachine) -> None:
        step = along_axis(answer.step, self._w)
        if self._order not in (Order.LOOK, Order.GIVE, Order.NEWTON):
            add_step(self._change.reshape(-1), np.full(self._w.shape[1], step), self._own.reshape(-1))
            self._sent.add_to(self._told, step)
        if answer.w is not None:
            self._w[:] = answer.w
        elif answer.change is not None:
            answer.change.add_to(self._w, step)
        self._state.w[:] = self._w

    def _told_w(self) -> Array | None:
        """Return the machine's part of w for the first report, after a LOOK and after the first NEWTON; else None."""
        if self._order is None:
            return self._state.w / self._sigma
        if self._order is Order.LOOK:
            return self._round.own_w / self._sigma
        return self._own.copy() if self._order is Order.NEWTON and not self._is_in_newton else None

    def alpha(self, part: slice = slice(None)) -> Array:
        """Return alpha of these rows in the whole problem, (n,) or (n, lanes); feasible between two rounds."""
        return self._state.alpha[part] / self._sigma

    def held_out(self, place: int) -> HeldRows:
        """Return the rows that the lane at index `place` left out of training, as the last look has evaluated them."""
        ids, target, decision_values = read_held_out(self._directory, self._plan.n_rows, place)
        weight = read_weights(self._directory, self._plan.n_rows)
        return HeldRows(
            written_ids(self._rows, ids), target, decision_values, None if weight is None else np.asarray(weight[ids])
        )

    def kill(self) -> None:
        """Kill the processes and remove their files."""
        self._run.close()
        self._leftovers.remove()

    def _dual(self, has_looked: bool) -> Array:
        """Return the rows' part of D, (lanes,). With whole steps the trainer's D has an error, which a LOOK shows."""
        told = self._round.lanes["dual"][: self._lanes]
        if self._has_whole_steps and has_looked:
            exact = self._state.lanes["final_dual_objective"] + dots(self._round.own_w, self._round.own_w) / 2.0
            self._dual_error = told - exact[: self._lanes]
        return np.asarray((told - self._dual_error) / self._sigma)

    def _reply(self) -> bytes:
        """Read the trainer's reply to a request of Newton steps."""
        path = self._directory / NEWTON_REPLY
        reply = path.read_bytes()
        path.unlink()  # it may be large, and in memory
        return reply

    def _exported_rows(self) -> ExportedRows:
        """Read the rows that the trainer has exported."""
        segments = split((self._directory / GIVEN).read_bytes())
        alpha = load_array(self._directory / GIVEN_ALPHA) / self._sigma
        return ExportedRows(segments, alpha)

    def _losses(self) -> Array:
        """Return sum_i C loss_i, (lanes,), over the machine's rows, with the C of the whole problem."""
        P = self._state.lanes["final_primal_objective"][: self._lanes]
        return (P - dots(self._w, self._w)[: self._lanes] / 2.0) / self._sigma

    def _wait(self) -> None:
        counts, began = self._round.counts[0], time.perf_counter()
        look = 0.0
        while counts["asked"] <= counts["answered"]:
            if time.perf_counter() > look:
                self._run.poll()
                look = time.perf_counter() + _LOOK_SECONDS
            backoff_sleep(began)

    def _finish(self) -> None:
        while not self._run.poll():
            time.sleep(_LOOK_SECONDS / 10)


def _shard_plan(begin: Begin, manifest: Any) -> JobPlan:
    """Plan the running lanes on the shard, with sigma times C."""
    spec = JobSpec.model_validate(begin.spec)
    C = [begin.machines * each for each in spec.C] if isinstance(spec.C, list) else begin.machines * spec.C
    own = {"C": C, "max_passes": _NO_END, "max_seconds": None}
    return replace(plan_job(spec.model_copy(update=own), manifest), number=begin.number, at_once=begin.at_once)


def _beginning_at(alpha: Array | None, sigma: float, plan: JobPlan) -> Callable[[State], None]:
    """Return a function that fills a new state with sigma times this alpha; without alpha the state stays zero."""

    def begin(state: State) -> None:
        if alpha is not None and alpha.shape == state.alpha.shape:
            state.alpha[:] = _scaled(alpha, sigma, plan)
            state.control["w_unmade"] = 1

    return begin


def _scaled(alpha: Array, sigma: float, plan: JobPlan) -> Array:
    """Multiply alpha of the whole problem by sigma for the machine's trainer; rounding does not break bounds."""
    found = alpha * sigma
    if plan.spec.loss.startswith("squared"):
        return np.asarray(found)
    if plan.manifest.weights is not None or plan.spec.class_weight is not None:
        return np.asarray(found * _LESS)  # each row has its own upper bound
    for lane, column in zip(plan.running, found.T, strict=False):
        np.clip(column, -lane.C_positive, lane.C_positive, out=column)
    return np.asarray(found)


def _tell_of_shard(directory: Path, begin: Begin, whole_steps: bool) -> None:
    """Add to run.json that reader and trainer work on one shard of the rows, and when a pass over the shard ends."""
    told: dict[str, Mapping[str, Any]] = json.loads((directory / RUN_FILE).read_bytes())
    part = {"part_rows": begin.rows.tolist()}
    reader, stored = {**told["reader"], **part}, {**told["trainer"]["stored_rows"], **part}
    rounds = {"shards": begin.machines, "whole_steps": whole_steps, **(_ALONE if begin.is_alone else _IN_ROUNDS)}
    trainer = {**told["trainer"], "stored_rows": stored, **rounds}
    (directory / RUN_FILE).write_text(json.dumps({**told, "reader": reader, "trainer": trainer}))
