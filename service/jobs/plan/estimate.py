"""What a job would take, without running it."""

from dataclasses import asdict
from typing import Any

from streamsvm.service.jobs.plan.memory import memory_of
from streamsvm.service.jobs.plan.plan import JobPlan

# Of one core each, on the slow side of what tests/bench/RESULTS.md shows.
_READER_BYTES_PER_SECOND = 180e6
_TRAINER_NON_ZEROS_PER_SECOND = 120e6
_MODEL_WEIGHT_BYTES = 8
_VISITS = 2.0  # of a row in a pass, of a solver that does not say
_LANE_SHARE = 0.3  # of a visit in one lane, what each of several side by side takes


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
            # At most: in the second pass, that of the first and what is left of it.
            "spill_bytes": 2 * manifest.decoded_bytes if plan.spills else 0,
        },
        "lanes": {"count": len(plan.lanes), "at_once": at_once, "groups": len(plan.firsts)},
        "seconds_per_pass": max(reading, training),
        "cache_share": min(1.0, plan.cache.row_bytes / manifest.decoded_bytes),
    }
