"""Starts a job from the solution of another job on the same dataset: with another C, other rows or another solver.

With C' in place of C, alpha and w are scaled by C' / C: alpha stays feasible, and w is still sum_i alpha_i y_i x_i (for
hinge loss; Chu et al., "Warm start for parameter selection of linear classifiers", KDD 2015).

Rows that are still there keep their alpha, new rows begin at 0 (Yu et al., section 6.3). If no row was removed, w is
still that sum; else the reader computes w anew, in an additional pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import JobSpec, read_spec
from streamsvm.service.jobs.lanes.lane_files import lane_directory, numbers_before
from streamsvm.service.jobs.plan.plan import MOST_ROWS, JobPlan
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import StorageError
from streamsvm.storage.files.durable import pack, unpack, write_file
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import RUN, count_rows, first_rows, one_run, shared_rows
from streamsvm.storage.run.checkpoint import Checkpoint, newest_checkpoint
from streamsvm.storage.run.state import State
from streamsvm.trainer.solvers import SOLVERS

TRAINED_ROWS = "rows.json"
_VERSION = 1
_SAME = ("loss", "bias", "features", "class_weight", "multiclass")
_ROWS_AT_ONCE = 1 << 14  # whose dual variables are scaled: a copy of all would take memory
_WITHOUT = "Start without it."


def rows_of(plan: JobPlan, dataset: Path) -> Array:
    """Return the runs of the job's rows in the order of alpha, see `storage.rows.row_runs`. Raises StorageError.

    For a dataset that is still being read in, this is one run of the most rows that there may be.
    """
    return one_run(plan.n_rows) if plan.follows else Dataset(dataset).row_runs()


def note_rows(job_dir: Path, plan: JobPlan, dataset: Path, has_begun: bool) -> None:
    """Record an attempt's rows. Raises ServiceError `dataset_changed` if earlier attempts (`has_begun`) had others."""
    own, noted = rows_of(plan, dataset), noted_rows(job_dir)
    if noted is not None and has_begun:
        # As far as the records tell; for data still being read in, the checkpoint tells how many rows came.
        n_noted, n_own = count_rows(noted), count_rows(own)
        if int(shared_rows(noted, own)[:, 2].sum()) != n_own or n_noted not in (n_own, MOST_ROWS):
            hint = "Submit a job with warm_start."
            raise ServiceError("dataset_changed", "rows came or went since the checkpoint", hint)
    dealt = "by_class" if plan.is_stratified else "by_hash"
    write_file(job_dir / TRAINED_ROWS, [pack({"runs": own.tolist(), "dealt": dealt}, _VERSION)])


def noted_rows(job_dir: Path) -> Array | None:
    """Read the rows that a job was trained on; None: an earlier version recorded none, or the file is damaged."""
    runs = _noted(job_dir).get("runs")
    return None if runs is None else np.array(runs, RUN)


def are_dealt_otherwise(job_dir: Path, plan: JobPlan) -> bool:
    """Return whether lanes of a job come from a version that dealt all rows to folds by a hash."""
    return plan.is_stratified and _noted(job_dir).get("dealt") != "by_class"


def _noted(job_dir: Path) -> dict[str, Any]:
    try:
        return unpack((job_dir / TRAINED_ROWS).read_bytes(), _VERSION, "note of a job's rows", "")
    except (StorageError, OSError):
        return {}


@dataclass(frozen=True)
class SharedRows:
    """Rows that two jobs on a dataset share; between the jobs, rows may have been added and removed.

    ranges   (n, 3): first index in the earlier alpha, first index in the new alpha, number of rows; see `shared_rows`
    w_holds  w is still sum_i alpha_i y_i x_i: no row was removed, so that both labels are unchanged
    """

    ranges: Array
    w_holds: bool

    @property
    def n_rows(self) -> int:
        """The number of shared rows."""
        return int(self.ranges[:, 2].sum())


def check_warm_start(store: Store, settings: Settings, plan: JobPlan, dataset_id: str) -> None:
    """Check that training can start from the solution of the job that `warm_start` names.

    Raises ServiceError unknown_job, dataset_changed, or warm_start if its solution does not fit this job.
    """
    if plan.spec.warm_start is None:
        return
    other = store.job(plan.spec.warm_start)
    for reason in _reasons(plan, other, dataset_id):
        raise ServiceError("warm_start", f"{other['id']} is not one to start from: {reason}")
    checkpoint = newest_checkpoint(settings.jobs / other["id"])
    if checkpoint is None:
        raise ServiceError("warm_start", f"{other['id']} is not one to start from: it left no checkpoint")
    _shared(settings, plan, other, checkpoint.length("alpha"))


def _reasons(plan: JobPlan, other: dict[str, Any], dataset_id: str) -> list[str]:
    spec, theirs = plan.spec, read_spec(other["spec"])
    found = [f"its {name} is another" for name in _SAME if getattr(theirs, name) != getattr(spec, name)]
    if TRANSITIONS[other["state"]]:
        found.append("it has not ended")
    if max(len(theirs.Cs), len(spec.Cs)) > 1:
        found.append("between jobs that have several values of C there is no warm start")
    if other["dataset_id"] != dataset_id:
        found.append("it was trained on other data")
    if not spec.loss_kind.is_quadratic:
        found.append(f"there is no warm start for {spec.loss} loss")
    if spec.class_weight is not None:
        found.append("there is no warm start with class weights")
    if len(plan.labels) > 2 and not spec.is_joint:
        found.append("there is no warm start with more than two labels, each against the rest")
    if spec.n_folds or theirs.n_folds:
        found.append("between jobs that have folds there is no warm start")
    if plan.solver.is_dual and not SOLVERS[theirs.solver].is_dual:
        found.append(f"{theirs.solver} has no dual variables, which {spec.solver} needs")
    return found


def beginning(
    store: Store, settings: Settings, record: dict[str, Any], plan: JobPlan
) -> Callable[[State], None] | None:
    """Return a function that fills the state for a job's next lanes; None: they begin at zero.

    The function raises ServiceError: checkpoint_lost, dataset_changed, unknown_job.
    """
    if plan.number > 0:
        return next_beginning(plan, settings.jobs / record["id"])
    other_id = plan.spec.warm_start
    if other_id is None:
        return None

    def begin(state: State) -> None:
        other, checkpoint = store.job(other_id), newest_checkpoint(settings.jobs / other_id)
        if checkpoint is None:
            raise ServiceError("checkpoint_lost", "the checkpoint of the job to start from is gone", _WITHOUT)
        shared = _shared(settings, plan, other, checkpoint.length("alpha"))
        (other_C,) = read_spec(other["spec"]).Cs
        warm_up(state, plan, other_C, checkpoint, shared)
        store.explain_job(record["id"], warm_start={"rows": shared.n_rows, "of": plan.n_rows})

    return begin


def next_beginning(plan: JobPlan, job_dir: Path) -> Callable[[State], None] | None:
    """Return a function that fills the state for lanes that follow others; None: no lanes came before these."""
    return partial(begin_lane, plan=plan, job_dir=job_dir) if plan.number else None


def begin_lane(state: State, plan: JobPlan, job_dir: Path) -> None:
    """Start lanes from the solution for the same classes and folds at the next smaller C, if its checkpoint exists."""
    state.control["elapsed_seconds"] = plan.seconds_before
    for first, both in numbers_before(plan).items():
        checkpoint = newest_checkpoint(lane_directory(job_dir, replace(plan, number=first)))
        if checkpoint is None:
            continue
        before, places = np.array(both).T
        Cs = np.array([[plan.running[place].C, plan.lanes[first + k].C] for k, place in both]).T
        # A joint problem has a column for each class, and is alone in its run.
        own, other = (slice(None), slice(None)) if plan.spec.is_joint else (places, before)
        state.w[:, own] = checkpoint["w"][:, other] * (Cs[0] / Cs[1])
        alpha = checkpoint["alpha"] if plan.solver.is_dual else np.zeros((0, plan.tasks.width))
        for begin in range(0, len(alpha), _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            state.alpha[rows, own] = _scaled(alpha[rows, other], plan.spec, *Cs)


def can_grow(before: JobPlan, plan: JobPlan) -> bool:
    """Return whether a job may start from another job's solution, trained before rows were added to the dataset."""
    spec = plan.spec
    is_one = len(before.lanes) == len(plan.lanes) == 1 and before.labels == plan.labels
    is_plain = not spec.class_weight and plan.manifest.weights is None and spec.loss_kind.is_quadratic
    is_same = all(getattr(before.spec, name) == getattr(spec, name) for name in _SAME)
    return is_one and is_plain and is_same and before.solver.is_dual


def grow(state: State, plan: JobPlan, before_C: float, checkpoints: Path, then: Array, now: Array) -> None:
    """Fill the state of a job that `can_grow` from a checkpoint at `before_C`, whose rows `then` are among `now`."""
    checkpoint = newest_checkpoint(checkpoints)
    if checkpoint is not None:
        warm_up(state, plan, before_C, checkpoint, SharedRows(shared_rows(then, now), w_holds=True))


def _shared(settings: Settings, plan: JobPlan, other: dict[str, Any], n_rows: int) -> SharedRows:
    """Return the rows that a job shares with `other`, an ended job whose checkpoint has alpha of `n_rows` rows.

    Raises ServiceError `dataset_changed` if they share no row.
    """
    now = rows_of(plan, settings.datasets / other["dataset_id"])
    noted = noted_rows(settings.jobs / other["id"])
    then = _guessed(n_rows, now, plan.manifest.has_gaps) if noted is None else first_rows(noted, n_rows)
    shared = shared_rows(then, now)
    if not len(shared):
        raise ServiceError("dataset_changed", "no row is left of those that the job to start from had", _WITHOUT)
    is_sure = noted is not None or not plan.manifest.has_gaps
    return SharedRows(shared, w_holds=is_sure and int(shared[:, 2].sum()) == n_rows)


def _guessed(n_rows: int, now: Array, has_gaps: bool) -> Array:
    """Return the rows of a job that recorded none: a guess from the dataset's present rows, `now`."""
    if not has_gaps:
        return one_run(n_rows)
    if n_rows != count_rows(now):
        raise ServiceError("dataset_changed", "rows went since, and the job to start from did not note which", _WITHOUT)
    # The rows may have been replaced by as many others. Any alpha can be the start, for w is computed from it.
    return now


def warm_up(state: State, plan: JobPlan, other_C: float, checkpoint: Checkpoint, shared: SharedRows) -> None:
    """Fill alpha and w of the next lane from a checkpoint at `other_C`; set `w_unmade` if the reader has to make w."""
    spec, own_C = plan.spec, plan.lane.C
    w, has_constant = checkpoint["w"] * (own_C / other_C), spec.bias is not None
    # New features begin at 0; the constant one is the last.
    n_features = len(w) - has_constant
    state.w[:n_features] = w[:n_features]
    if has_constant:
        state.w[-1] = w[-1]
    if plan.solver.is_dual:
        alpha = _scaled(checkpoint["alpha"], spec, own_C, other_C)
        for then, now, rows in shared.ranges.tolist():
            state.alpha[now : now + rows] = alpha[then : then + rows]
        # New rows change the statistics of maps, and so the mapped values of all other rows.
        is_mapped_anew = bool(spec.features) and shared.n_rows < len(state.alpha)
        state.control["w_unmade"] = not shared.w_holds or is_mapped_anew


def _scaled(alpha: Array, spec: JobSpec, own_C: Array | float, other_C: Array | float) -> Array:
    """Return alpha of problems at `other_C` as they are in the box at `own_C`; one C for all or for each column."""
    scaled = alpha * (own_C / other_C)
    if not spec.loss_kind.has_curvature:
        # C * (C' / C) need not be C' to the last bit, and |alpha| may not exceed C'; other classes have alpha < 0.
        np.clip(scaled, -own_C, own_C, out=scaled)
        np.copyto(scaled, own_C, where=alpha == other_C)
        np.copyto(scaled, np.negative(own_C), where=alpha == np.negative(other_C))
    return scaled
