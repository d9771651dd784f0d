"""How many cores this process may use: those it may run on, and what its control groups let it use of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

from streamsvm.storage.machine.control_groups import MEMBERSHIP, MOUNT, group_directories


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Cores in the process's affinity, or as many as its CPU quota is worth, rounded up, if they are fewer; at least 1.

    See `group_directories`.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(ceil, _quotas(mount, membership))]))


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """In cores."""
    for group in group_directories("cpu", mount, membership):
        with suppress(OSError, ValueError):
            quota, period = _limit(group)
            if quota > 0 and period > 0:
                yield quota / period


def _limit(group: Path) -> tuple[int, int]:
    """Microseconds of CPU time in a period of so many; ValueError if there is no limit."""
    unified = group / "cpu.max"
    if unified.exists():
        quota, period = unified.read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)
