"""Which lanes of a job are trained again, because files that they left are not what was written.

They come to the same once more. So lanes that were trained side by side are trained again together; and where lanes
begin at the end of others, of which the checkpoint has gone since, these are trained again, too.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from streamsvm.service.errors import Crash
from streamsvm.service.jobs.lanes.held_out import held_out, lane_place
from streamsvm.service.jobs.lanes.lane_files import drop_outcome, has_come, lane_directory, number_before, outcome_of
from streamsvm.service.jobs.plan.following import FollowPlan
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.run.checkpoint import newest_checkpoint


def drop_unsound(job_dir: Path, plan: JobPlan | FollowPlan) -> None:
    """Drop the outcome of lanes that are to be trained again. Reads all files."""
    groups = list(_groups(plan)) if isinstance(plan, JobPlan) else []
    for group in groups:
        come = [has_come(lane_place(job_dir, group.number + place)) for place in range(len(group.running))]
        # The first is written last: one without it is of a group that was being written.
        if come != sorted(come, reverse=True) or not all(_is_sound(job_dir, group, k) for k in range(sum(come))):
            _drop(job_dir, group)
    for group in reversed(groups):
        before = _lost_beginning(job_dir, group)
        if before is not None:
            _drop(job_dir, before)


def _groups(plan: JobPlan) -> Iterator[JobPlan]:
    """Each with the lanes to be run that are trained side by side."""
    return (replace(plan, number=first) for first in plan.firsts)


def _is_sound(job_dir: Path, group: JobPlan, place: int) -> bool:
    """Whether the lane at this place of a group has left what was written."""
    try:
        outcome_of(job_dir, group.number + place)
        if group.running[place].fold is not None:
            held_out(job_dir, group.number + place)
    except Crash:
        return False
    return True


def _drop(job_dir: Path, group: JobPlan) -> None:
    for place in range(len(group.running)):
        drop_outcome(lane_place(job_dir, group.number + place))


def _lost_beginning(job_dir: Path, group: JobPlan) -> JobPlan | None:
    """The group at whose end this one is to begin, if it is to be trained and that end is not kept."""
    number, own = number_before(group), lane_directory(job_dir, group)
    # The last group is run once more if all are done, see `next_lanes`.
    is_kept = has_come(lane_place(job_dir, group.number)) and group.number != group.firsts[-1]
    # Machines look for the optimum from wherever they begin.
    if number is None or is_kept or group.spec.machines is not None or newest_checkpoint(own):
        return None
    before = replace(group, number=number)
    last = newest_checkpoint(lane_directory(job_dir, before))
    return None if last and last.about.get("ended") else before
