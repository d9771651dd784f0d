"""Starting a job from what another one found, on the same dataset: a path over C, or another solver.

With C' in place of C, alpha and w are scaled by C' / C: alpha stays feasible, and w is still what alpha makes of the
rows (for hinge loss; Chu et al., "Warm start for parameter selection of linear classifiers", KDD 2015).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from service.errors import ServiceError
from service.following import FollowPlan
from service.jobs import JobSpec
from service.lane_files import lane_directory
from service.lanes import Cs_of
from service.problem import JobPlan
from service.states import TRANSITIONS
from service.store import Store
from service.stored_specs import read_spec
from storage.checkpoint import Checkpoint, newest_checkpoint
from storage.state import State
from trainer.problem import LOSSES
from trainer.solvers import SOLVERS

_SAME = ("loss", "bias", "class_weight")


def check_warm_start(store: Store, jobs: Path, spec: JobSpec, dataset_id: str) -> None:
    """Raises ServiceError `warm_start` if the job named there is not one to start from, `unknown_job`."""
    if spec.warm_start is None:
        return
    other = store.job(spec.warm_start)
    for reason in _reasons(spec, other, dataset_id):
        raise ServiceError("warm_start", f"{spec.warm_start} is not one to start from: {reason}")
    if newest_checkpoint(jobs / other["id"]) is None:
        raise ServiceError("warm_start", f"{spec.warm_start} is not one to start from: it left no checkpoint")


def _reasons(spec: JobSpec, other: dict[str, Any], dataset_id: str) -> list[str]:
    theirs = read_spec(other["spec"])
    found = [f"its {name} is another" for name in _SAME if getattr(theirs, name) != getattr(spec, name)]
    if TRANSITIONS[other["state"]]:
        found.append("it has not ended")
    if max(len(Cs_of(theirs)), len(Cs_of(spec))) > 1:
        found.append("between jobs that have several values of C there is no warm start")
    if other["dataset_id"] != dataset_id:
        found.append("it was trained on other data")
    if spec.loss not in LOSSES:
        found.append(f"there is no warm start for {spec.loss} loss")
    if spec.class_weight is not None:
        found.append("there is no warm start with class weights")
    if SOLVERS[spec.solver].is_dual and not SOLVERS[theirs.solver].is_dual:
        found.append(f"{theirs.solver} has no dual variables, which {spec.solver} needs")
    return found


def beginning(store: Store, jobs: Path, job_id: str, plan: JobPlan | FollowPlan) -> Callable[[State], None] | None:
    """What prepares the state of a job, or of its next lane, that begins; None: all zero. `checkpoint_lost`."""
    if isinstance(plan, JobPlan) and plan.number > 0:
        return partial(begin_lane, plan=plan, job_dir=jobs / job_id)
    if plan.spec.warm_start is None:
        return None
    other = store.job(plan.spec.warm_start)
    checkpoint = newest_checkpoint(jobs / other["id"])
    if checkpoint is None:
        raise ServiceError("checkpoint_lost", "the checkpoint of the job to start from is gone", "Start without.")
    (other_C,) = Cs_of(read_spec(other["spec"]))
    return partial(warm_up, spec=plan.spec, other_C=other_C, checkpoint=checkpoint)


def begin_lane(state: State, plan: JobPlan, job_dir: Path) -> None:
    """A lane that is not the first: where the one before it ended, if that was of the same class at a smaller C."""
    state.control["elapsed_seconds"] = plan.seconds_before
    if plan.group:
        return  # side by side each begins at zero
    before, spec = plan.lanes[plan.number - 1], plan.lane_spec
    is_scaled = spec.class_weight is None and plan.manifest.weights is None
    is_next = (before.positive, before.fold) == (plan.lane.positive, plan.lane.fold)
    if is_next and spec.loss in LOSSES and is_scaled:
        checkpoint = newest_checkpoint(lane_directory(job_dir, replace(plan, number=plan.number - 1)))
        if checkpoint:
            warm_up(state, spec, before.C, checkpoint)


def warm_up(state: State, spec: JobSpec, other_C: float, checkpoint: Checkpoint) -> None:
    """Fill alpha and w of a job that is about to start. Raises ServiceError `dataset_changed`."""
    alpha, w = checkpoint["alpha"], checkpoint["w"]
    if (len(alpha), len(w)) != (len(state.alpha), len(state.w)):
        raise ServiceError("dataset_changed", "rows came or went since the job to start from", "Start without it.")
    (own_C,) = Cs_of(spec)
    factor = own_C / other_C
    state.w[:] = w * factor
    if SOLVERS[spec.solver].is_dual:
        state.alpha[:] = alpha * factor
        if spec.loss == "hinge":
            # C * (C' / C) need not be C' to the last bit, and nothing may be above it.
            np.minimum(state.alpha, own_C, out=state.alpha)
            state.alpha[alpha == other_C] = own_C
