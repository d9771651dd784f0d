"""The number of cores this process may use: its affinity, limited by the CPU quotas of its control groups."""

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

from streamsvm.storage.machine.control_groups import MEMBERSHIP, MOUNT, group_directories


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Cores in the process's affinity, or its CPU quota in cores, rounded up, if that is less; at least 1.

    For `mount` and `membership` see `group_directories`.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(ceil, _quotas(mount, membership))]))


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """The CPU quotas of the process's groups, in cores."""
    for group in group_directories("cpu", mount, membership):
        with suppress(OSError, ValueError):
            quota, period = _limit(group)
            if quota > 0 and period > 0:
                yield quota / period


def _limit(group: Path) -> tuple[int, int]:
    """(quota, period): microseconds of CPU time in each period of so many. Raises ValueError without a limit."""
    unified = group / "cpu.max"
    if unified.exists():
        quota, period = unified.read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)
