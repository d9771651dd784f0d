"""How many cores this process may use: those it may run on, and what its control groups let it use of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Cores in the process's affinity, or as many as its CPU quota is worth, rounded up, if they are fewer; at least 1.

    mount       of the control groups, of version 1 or 2 (cgroups(7))
    membership  the file that says which the process is in
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(ceil, _quotas(mount, membership))]))


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """In cores, of the groups the process is in. Each holds for all below it."""
    for hierarchy, path in _groups(mount, membership):
        for group in (path, *path.parents):
            # In a container the path may be the host's, and the mount already the container's own group.
            directory = hierarchy / group.relative_to("/")
            with suppress(OSError, ValueError):
                quota, period = _limit(directory)
                if quota > 0 and period > 0:
                    yield quota / period


def _groups(mount: Path, membership: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """Where the hierarchy is that counts time, and the group in it."""
    lines = []
    with suppress(OSError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield mount, PurePosixPath(path)
        elif "cpu" in controllers.split(","):
            yield mount / controllers, PurePosixPath(path)


def _limit(group: Path) -> tuple[int, int]:
    """Microseconds of CPU time in a period of so many; ValueError if there is no limit."""
    unified = group / "cpu.max"
    if unified.exists():
        quota, period = unified.read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)
