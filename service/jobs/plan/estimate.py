"""Estimates the memory, disk and time of a job without running it."""

from dataclasses import asdict
from typing import Any

from streamsvm.service.jobs.plan.memory import memory_of
from streamsvm.service.jobs.plan.plan import JobPlan

# Speeds of one core, on the slow side of those in tests/bench/RESULTS.md.
_READER_BYTES_PER_SECOND = 180e6
_TRAINER_NON_ZEROS_PER_SECOND = 120e6
_MODEL_WEIGHT_BYTES = 8
_VISITS = 2.0  # visits to a row in a pass, for a solver without an option of that name
_LANE_SHARE = 0.3  # cost of a visit in each of several lanes side by side, relative to a visit in one lane alone


def estimate(plan: JobPlan) -> dict[str, Any]:
    """Bytes of memory by what holds them, bytes on disk, seconds a pass: reader and trainer work side by side."""
    spec, manifest, at_once = plan.spec, plan.manifest, len(plan.running)
    memory = memory_of(spec, manifest, plan.threads, at_once)
    reading = manifest.decoded_bytes / _READER_BYTES_PER_SECOND
    training = getattr(spec.options, "visits", _VISITS) * manifest.nnz / _TRAINER_NON_ZEROS_PER_SECOND
    training *= max(1.0, _LANE_SHARE * plan.axes[0])
    return {
        "memory": {**asdict(memory), "total_bytes": memory.total_bytes},
        # The run's files lie in memory if there is room.
        "disk": {
            "model_bytes": _MODEL_WEIGHT_BYTES * plan.width * (len(plan.labels) if len(plan.labels) > 2 else 1),
            "run_bytes": plan.run_bytes,
            # An upper bound: in the second pass the file of the first one is still there.
            "spill_bytes": 2 * manifest.decoded_bytes if plan.spills else 0,
        },
        "lanes": {"count": len(plan.lanes), "at_once": at_once, "groups": len(plan.firsts)},
        "seconds_per_pass": max(reading, training),
        "cache_share": min(1.0, plan.cache.row_bytes / manifest.decoded_bytes),
    }
