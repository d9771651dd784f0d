"""Decides which lanes come next, and where an attempt at a job begins: at its checkpoint, another job's, or anew.

Lanes whose files are damaged are trained again, and have to reach the same result. So lanes that were trained side by
side are trained again together. If lanes began at the solution of earlier lanes, and the checkpoint with that solution
is gone, the earlier lanes are trained again, too. The search of a job with C "auto" ends after some turns of values.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamsvm.service.errors import Crash, ServiceError, meant, shown
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec, read_spec
from streamsvm.service.jobs.lanes.lane_files import (
    abouts_of,
    begun_last,
    drop_after,
    drop_outcome,
    has_checkpoint,
    has_come,
    held_out,
    inherit_lanes,
    lane_directory,
    lane_place,
    newest_lane,
    numbers_before,
    outcome_of,
)
from streamsvm.service.jobs.lanes.outcome import CrossValidation, cross_validation
from streamsvm.service.jobs.lanes.warm_start import TRAINED_ROWS
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.progress import HISTORY, records_of
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.run.checkpoint import SLOTS, Checkpoint, newest_checkpoint

# Fields that may differ in a job that continues another: they say when training ends.
CHANGEABLE = ("max_passes", "max_seconds", "tolerance", "relative_gap")


def continued_spec(jobs: Path, record: dict[str, Any], changes: dict[str, Any]) -> JobSpec:
    """Return the spec of a job that continues the job of `record`, with `changes` of its fields. Raises ServiceError
    unknown_field, not_possible, job_outdated."""
    for name in changes:
        if name not in CHANGEABLE:
            message = f"a field {shown(name)} cannot be changed"
            hint = f"{meant(name, CHANGEABLE)}Known are {', '.join(CHANGEABLE)}."
            raise ServiceError("unknown_field", message, hint)
    if TRANSITIONS[record["state"]]:
        raise ServiceError("not_possible", f"a job that is {record['state']} has not ended", "Stop it first.")
    if not may_go_on(jobs / record["id"]):
        raise ServiceError("not_possible", "the job left no checkpoint to go on from", "Submit it anew.")
    first = begun_last(jobs / record["id"])
    if first and changes:
        raise ServiceError(
            "not_possible",
            f"{first} of the job's lanes are done and keep their models: other fields would have changed those",
            "Resume it without changes, or submit it anew.",
        )
    spec = read_spec(record["spec"])
    # cache_bytes is set already where memory_bytes was given. Labels could be longer in earlier versions.
    continued = parse_spec({**spec.model_dump(), "memory_bytes": None, "labels": {}, **changes})
    continued = continued.model_copy(update={"labels": spec.labels})
    # With several lanes memory_bytes stays: it says how many are trained side by side.
    return continued if first is None else continued.model_copy(update={"memory_bytes": spec.memory_bytes})


def may_go_on(job_dir: Path) -> bool:
    """Return whether the directory of an ended job has finished lanes or a checkpoint from which training can go on."""
    return bool(begun_last(job_dir)) or has_checkpoint(newest_lane(job_dir)[1])


def inherit(jobs: Path, record: dict[str, Any]) -> None:
    """Give a job that continues another the other's checkpoints, finished lanes, record of rows, and history.

    Do nothing if the job has checkpoints or lanes already. Raises ServiceError `checkpoint_lost`.
    """
    own, other = jobs / record["id"], record["continues"] and jobs / record["continues"]
    if other is None or has_checkpoint(own) or begun_last(own) is not None:
        return
    found, first = [slot for slot in SLOTS if (other / slot).exists()], begun_last(other)
    if not found and first is None:
        raise ServiceError("checkpoint_lost", "the job to be continued is gone", "Submit it anew.")
    for name in (HISTORY, TRAINED_ROWS):
        if (other / name).exists():
            write_file(own / name, [(other / name).read_bytes()])
    if first is not None:
        inherit_lanes(own, other, first)
        return
    for slot in found:
        # Checkpoints are replaced, never written to: a link is as good as a copy.
        os.link(other / slot, own / slot)


def keep_history(job_dir: Path, passes: int) -> None:
    """Shorten a job's history file to its first `passes` passes, without the result."""
    path = job_dir / HISTORY
    if passes and path.exists():
        lines = path.read_bytes().split(b"\n")[:-1]
        kept = [line for line, record in records_of(lines) if 0 < record.get("pass", 0) <= passes]
        write_file(path, [b"".join(line + b"\n" for line in kept)])
    else:
        path.unlink(missing_ok=True)


def lost_seconds(newest: Checkpoint | None, trained: float) -> float:
    """Return the seconds of training after the newest checkpoint, which a crash loses; `trained` is all seconds."""
    return trained - (newest.about["control"]["elapsed_seconds"] if newest else 0.0)


def drop_unsound(job_dir: Path, plan: JobPlan) -> None:
    """Remove the files of lanes that have to be trained again: damaged lanes, and some with them. Reads all files."""
    with suppress(Crash):  # of a lane that is damaged
        plan = searched(plan, job_dir, abouts_of(job_dir))
    groups = [replace(plan, number=first) for first in plan.firsts]  # a group is the lanes that one run trains
    for group in groups:
        come = [has_come(lane_place(job_dir, group.number + place)) for place in range(len(group.running))]
        # The first lane of a group is written last: if it is missing, a crash came while the group was written.
        if come != sorted(come, reverse=True) or not all(_is_sound(job_dir, group, k) for k in range(sum(come))):
            _drop(job_dir, group)
            if plan.spec.searches_C:  # what comes next depends on what was found
                drop_after(job_dir, group.number)
    for group in reversed(groups):
        for before in _lost_beginnings(job_dir, group):
            _drop(job_dir, before)


def _is_sound(job_dir: Path, group: JobPlan, place: int) -> bool:
    """Return whether the files of the lane at index `place` of a group can be read undamaged."""
    try:
        if not group.is_searching:
            outcome_of(job_dir, group.number + place)
        if group.running[place].fold is not None:
            held_out(job_dir, group.number + place)
    except Crash:
        return False
    return True


def _drop(job_dir: Path, group: JobPlan) -> None:
    for place in range(len(group.running)):
        drop_outcome(lane_place(job_dir, group.number + place))


def _lost_beginnings(job_dir: Path, group: JobPlan) -> Iterator[JobPlan]:
    """Yield the groups from whose solution `group` has to start, and whose solution is lost."""
    own = lane_directory(job_dir, group)
    # The last group is run once more if all are done, see `next_lanes`.
    is_kept = has_come(lane_place(job_dir, group.number)) and group.number != group.firsts[-1]
    # Machines look for the optimum from wherever they begin.
    if is_kept or group.spec.machines is not None or newest_checkpoint(own):
        return
    for number in numbers_before(group):
        before = replace(group, number=number)
        last = newest_checkpoint(lane_directory(job_dir, before))
        if not (last and last.about.get("ended")):
            yield before


_CUT_SHORT = ("stopped", "max_seconds")


def searched(
    plan: JobPlan, job_dir: Path, done: Sequence[Mapping[str, Any]], known: CrossValidation | None = None
) -> JobPlan:
    """Return the plan of a job; once enough values of C are tried, with other lanes in place of those at larger values.

    `done` has the record of each finished lane. Once the metric has peaked or no value is left, C / 2 and 2 C are tried
    as well, where C is the best; then, or if time is up, come the lanes over all rows. The result depends on files
    alone: it is the same after a crash. Raises Crash if a file is damaged.
    """
    if not plan.spec.searches_C or plan.has_searched:
        return plan
    for turn in plan.turns:
        if turn.stop > len(done):
            break
        found = cross_validation(plan, job_dir, turn.stop, known)
        is_cut_short = any(done[number]["result"]["stop_reason"] in _CUT_SHORT for number in turn)
        if found and is_cut_short:
            return _with_models(plan, turn.stop, found)
        if found and (found.has_peaked or found.Cs[-1] == plan.spec.Cs[-1]):
            plan = plan.with_neighbours(turn.stop, found.selected_C)
            n_judged = len(plan.lanes)
            judged = cross_validation(plan, job_dir, n_judged, found) if n_judged <= len(done) else None
            return _with_models(plan, n_judged, judged) if judged else plan
        known = found
    return plan


def _with_models(plan: JobPlan, n_done: int, found: CrossValidation) -> JobPlan:
    return plan.with_models(n_done, found.Cs if plan.spec.keep == "all" else (found.selected_C,))
