"""Faster ways that a plan rules out before its job begins."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamsvm.reader.stream.settings import has_room_to_certify
from streamsvm.service.jobs.plan.blocks import holds_all
from streamsvm.service.jobs.plan.following import FollowPlan
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.rows.axis import WIDTHS
from streamsvm.trainer.problem.losses import SVM_LOSSES


def planned(plan: JobPlan | FollowPlan) -> frozenset[str]:
    """Codes of storage.run.slowdowns. A job that asks for the slower way is told nothing."""
    return frozenset(_planned(plan)) if isinstance(plan, JobPlan) else frozenset()


def _planned(plan: JobPlan) -> Iterator[str]:
    spec, solver = plan.spec, plan.solver
    asks_for_passes = getattr(spec.options, "n_blocks", None) or not getattr(spec.options, "spill", True)
    if not (plan.spills or asks_for_passes or holds_all(spec, plan.manifest, plan.cache)):
        yield "cache_too_small"
    shares = solver.shares_work and spec.loss in SVM_LOSSES and plan.threads > 1
    if (spec.threads or 1) > 1 and not shares:
        yield "one_thread"
    has_lanes = solver.has_lanes and spec.loss in SVM_LOSSES and not spec.is_joint
    if has_lanes and plan.at_once < min(max(WIDTHS), len(plan.lanes) // plan.turns):
        yield "lanes_apart"
    if _certifies_alone(plan):
        yield "certified_alone"


def _certifies_alone(plan: JobPlan) -> bool:
    """Whether one thread alone makes the features for a certificate, for want of room."""
    spec, threads = plan.spec, min(plan.spec.threads or plan.cores, plan.cores)
    makes = spec.kernel == "linear" and len(plan.maps.late) > 0
    is_asked = makes and threads > 1 and spec.pace == "adaptive"
    return is_asked and not has_room_to_certify(plan.width, plan.axes[0], threads)


def told_last(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Slowdowns of the last attempt at a job, unless there is to be another one."""
    attempts = [step for step in record["transitions"] if step["state"] == "running"]
    return attempts[-1].get("slowdowns", []) if attempts and record["state"] != "queued" else []
