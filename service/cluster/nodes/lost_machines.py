"""Whether a machine that is lost is begun anew, and what a job says that failed because of it."""

from importlib.metadata import version

from streamsvm.service.cluster.nodes.connecting import FOR_GOOD
from streamsvm.service.errors import ServiceError
from streamsvm.storage.errors import NO_ROOM, ROOM_HINT, StorageError

# Faults that every node would meet, at any time.
_FOR_GOOD = (*FOR_GOOD, "cache_too_small", "memory_too_small", "features_range", "unknown_label")


def is_for_good(cause: Exception) -> bool:
    """Whether the machine would fail again wherever it is begun."""
    return isinstance(cause, ServiceError) and cause.code in _FOR_GOOD


def told(number: int, cause: Exception) -> ServiceError:
    """The error that the job fails with."""
    if isinstance(cause, ServiceError | StorageError):
        return ServiceError(cause.code, f"machine {number}: {cause.message}", cause.hint)
    if isinstance(cause, OSError) and cause.errno in NO_ROOM:
        return ServiceError("out_of_space", f"machine {number}: the disk is full", ROOM_HINT)
    return ServiceError("machine_lost", f"machine {number} was lost again and again", "The nodes' logs say more.")


def check_versions(theirs: set[str]) -> None:
    """Check that all nodes have this version of StreamSVM. Raises ServiceError node_version."""
    own = version("streamsvm")
    if theirs != {own}:
        others = ", ".join(sorted(theirs - {own}))
        raise ServiceError(
            "node_version", f"nodes have StreamSVM {others}, this is {own}", "Install the same version everywhere."
        )
