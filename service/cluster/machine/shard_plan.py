"""Plans the run of a machine on its shard: there alpha and C are multiplied by sigma, see storage.run.rounds."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.cluster.rounds.messages import Begin
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import JobPlan, plan_job
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE, State

# A pass ends at the job's targets on a machine that is alone, else once its rows' gap has fallen to this share.
_ALONE, _IN_ROUNDS = {"share_of_gap": 0.0}, {"share_of_gap": 0.75, "tolerance": None, "relative_gap": None}
_NO_END = 1 << 62  # passes
_LESS = 1.0 - 2.0**-51  # makes up for rounding


def shard_plan(begin: Begin, manifest: Any) -> JobPlan:
    """Plan the running lanes on the shard, with sigma times C."""
    spec = JobSpec.model_validate(begin.spec)
    C = [begin.machines * each for each in spec.C] if isinstance(spec.C, list) else begin.machines * spec.C
    own = {"C": C, "max_passes": _NO_END, "max_seconds": None}
    return replace(plan_job(spec.model_copy(update=own), manifest), number=begin.number, at_once=begin.at_once)


def beginning_at(alpha: Array | None, sigma: float, plan: JobPlan) -> Callable[[State], None]:
    """Return a function that fills a new state with sigma times this alpha; without alpha the state stays zero."""

    def begin(state: State) -> None:
        if alpha is not None and alpha.shape == state.alpha.shape:
            state.alpha[:] = scaled(alpha, sigma, plan)
            state.control["w_unmade"] = 1

    return begin


def scaled(alpha: Array, sigma: float, plan: JobPlan) -> Array:
    """Multiply alpha of the whole problem by sigma for the machine's trainer. Rounding must not leave the box."""
    found = alpha * sigma
    if plan.spec.loss.startswith("squared"):
        return np.asarray(found)
    if plan.manifest.weights is not None or plan.spec.class_weight is not None:
        return np.asarray(found * _LESS)  # rows have boxes of their own
    for lane, column in zip(plan.running, found.T, strict=False):
        np.clip(column, -lane.C_positive, lane.C_positive, out=column)
    return np.asarray(found)


def tell_of_shard(directory: Path, begin: Begin, whole_steps: bool) -> None:
    """Add to run.json that reader and trainer work on one shard of the rows, and when a pass over it ends."""
    told: dict[str, Mapping[str, Any]] = json.loads((directory / RUN_FILE).read_bytes())
    reader = {**told["reader"], "part_rows": begin.rows.tolist()}
    rounds = {"shards": begin.machines, "whole_steps": whole_steps, **(_ALONE if begin.is_alone else _IN_ROUNDS)}
    trainer = {**told["trainer"], **rounds}
    (directory / RUN_FILE).write_text(json.dumps({**told, "reader": reader, "trainer": trainer}))
