"""Estimates, before a job runs, its memory, disk space and time, and names the slowdowns that its plan brings."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streamsvm.reader.stream.settings import has_room_to_certify
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.plan.memory import RULED_OUT, holds_all, most_at_once, ruled_out_by
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.blocks.manifest import read_profile
from streamsvm.trainer.newton.system import LARGEST
from streamsvm.trainer.problem.losses import make_loss

# Speeds of one core, on the slow side of those in tests/bench/RESULTS.md.
_READER_BYTES_PER_SECOND = 180e6
_TRAINER_NON_ZEROS_PER_SECOND = 120e6
_MODEL_WEIGHT_BYTES = 8
_VISITS = 2.0  # visits to a row in a pass, for a solver without an option of that name
_FEW_VALUES = 5_000_000  # in all lanes: Newton steps over so many take some seconds on features of any scale
_LANE_SHARE = 0.3  # cost of a visit in each of several lanes side by side, relative to a visit in one lane alone


def estimate(plan: JobPlan) -> dict[str, Any]:
    """Return the estimate of a job: bytes of memory and of disk space, lanes, seconds for a pass, Newton steps, cache.

    The seconds are those of the slower of reader and trainer. `newton` says if the job may take Newton steps.
    """
    spec, manifest, at_once = plan.spec, plan.manifest, len(plan.running)
    memory = plan.memory
    reading = manifest.decoded_bytes / _READER_BYTES_PER_SECOND
    training = getattr(spec.options, "updates_per_row", _VISITS) * manifest.nnz / _TRAINER_NON_ZEROS_PER_SECOND
    training *= max(1.0, _LANE_SHARE * plan.tasks.width)
    return {
        "memory": {**asdict(memory), "total_bytes": memory.total_bytes},
        # The run's files lie in memory if there is room.
        "disk": {
            "model_bytes": _MODEL_WEIGHT_BYTES * plan.width * (len(plan.labels) if len(plan.labels) > 2 else 1),
            "run_bytes": plan.run_bytes,
            # An upper bound: in the second pass the file of the first pass still exists.
            "spill_bytes": manifest.decoded_bytes if plan.spills else 0,
        },
        "lanes": {"count": len(plan.lanes), "at_once": at_once, "groups": len(plan.firsts)},
        "seconds_per_pass": max(reading, training),
        "newton": _newton(plan),
        "cache_share": min(1.0, plan.cache.row_bytes / manifest.decoded_bytes),
    }


def _newton(plan: JobPlan) -> dict[str, Any]:
    """Return whether the job may take Newton steps, the reason if not, and the most equations of a Newton system.

    How many rows do not rest at a bound, and so how large a system is, is known only after some sweeps.
    """
    code, is_alone = ruled_out_by(plan.spec), plan.spec.machines is None
    if code is None and is_alone:
        is_at_hand = plan.spills or holds_all(plan.spec, plan.manifest, plan.cache)
        code = "rows_not_at_hand" if not is_at_hand else None if plan.newton.equations else "no_room"
    needed = min(plan.n_rows, plan.width)
    # On several machines the room for a system is known only when each of them begins.
    room = plan.newton.equations if is_alone else LARGEST
    most = 0 if code else min(room, needed)
    message = RULED_OUT[code] if code else None
    if 0 < most < needed:
        may_iterate = most == LARGEST and make_loss(plan.spec.loss, plan.spec.epsilon).is_smooth
        message = (
            f"if more than {most:,} rows do not rest, directions come from conjugate gradients"
            if may_iterate
            else f"only if at most {most:,} rows do not rest: systems of more equations are too large"
        )
    return {"is_possible": code is None, "ruled_out_by": code, "message": message, "equations": most}


def planned_on(plan: JobPlan, dataset: Path) -> frozenset[str]:
    """Return the slowdowns that `planned` finds, with the scales from the profile of the dataset in this directory."""
    profile = read_profile(dataset)
    return planned(plan, profile.scales if profile else ())


def planned(plan: JobPlan, scales: Sequence[object] = ()) -> frozenset[str]:
    """Return codes of storage.run.slowdowns: slower ways that the plan takes although the job does not ask for them.

    scales  `scales` of the dataset's profile: empty unless features are on scales far apart
    """
    if plan.follows:
        return frozenset()
    far = {"scales_differ"} if scales and _needs_scaling(plan) else set()
    return frozenset({*_planned(plan), *far})


def _needs_scaling(plan: JobPlan) -> bool:
    """Return whether scales far apart may slow training: no map scales; Newton steps are not sure to end it soon."""
    is_scaled = {"scale", "idf"} & {name for name, _ in named_maps(plan.spec.features)}
    is_soon = plan.manifest.nnz * len(plan.lanes) <= _FEW_VALUES
    is_sure = not ruled_out_by(plan.spec) and min(plan.n_rows, plan.width) <= LARGEST and is_soon
    return not (is_scaled or is_sure)


def _planned(plan: JobPlan) -> Iterator[str]:
    spec, solver = plan.spec, plan.solver
    asks_for_passes = getattr(spec.options, "n_blocks", None) or not getattr(spec.options, "spill", True)
    if not (plan.spills or asks_for_passes or holds_all(spec, plan.manifest, plan.cache)):
        yield "cache_too_small"
    shares = solver.shares_work and plan.threads > 1
    if (spec.threads or 1) > 1 and not shares:
        yield "one_thread"
    if plan.at_once < min(most_at_once(spec), max(map(len, plan.turns))):
        yield "lanes_apart"
    if _certifies_alone(plan):
        yield "certified_alone"


def _certifies_alone(plan: JobPlan) -> bool:
    """Return whether, for want of memory, only one thread makes the features of the rows when the reader certifies."""
    spec, threads = plan.spec, min(plan.spec.threads or plan.cores, plan.cores)
    makes = spec.kernel == "linear" and len(plan.maps.late) > 0
    is_asked = makes and threads > 1 and spec.pace == "adaptive"
    return is_asked and not has_room_to_certify(plan.width, plan.tasks.width, threads)
