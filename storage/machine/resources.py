"""The memory and the cores this process can have: those of the machine, limited by the process's control groups.

The kernel's files of a control group say what its processes may use: cgroups(7), version 1 or 2.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MACHINE = Path("/proc/meminfo")


def group_directories(controller: str, mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Iterator[Path]:
    """Directories of the groups in which `controller` limits this process: its own group and all above it.

    mount       where the control groups are mounted
    membership  the file in which the kernel lists the groups of the process
    """
    for hierarchy, path in _groups(controller, mount, membership):
        for group in (path, *path.parents):
            # In a container the listed path may be the host's, while the mount already is the container's group.
            yield hierarchy / group.relative_to("/")


def _groups(controller: str, mount: Path, membership: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """(directory of a hierarchy that has the controller, path of the process's group in it)."""
    lines = []
    with suppress(OSError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield mount, PurePosixPath(path)
        elif controller in controllers.split(","):
            yield mount / controllers, PurePosixPath(path)


def free_memory(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> int:
    """Bytes that this process can take without swapping; 0 if no file of the kernel says.

    The page cache counts as free, since the kernel gives it back. For `mount` and `membership` see `group_directories`.
    """
    return max(0, min([*_available(machine), *_of_groups(_unused, mount, membership)], default=0))


def memory_limit(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine_bytes: int | None = None) -> int:
    """Bytes that this process could have if no other process had any."""
    return min([machine_bytes or machine_memory(), *_of_groups(_limit, mount, membership)])


def machine_memory() -> int:
    """Bytes of memory in the machine, whatever limits this process has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _available(machine: Path) -> Iterator[int]:
    with suppress(OSError, KeyError, ValueError):
        yield _numbers(machine)["MemAvailable:"] << 10


def _of_groups(read: Callable[[Path], int], mount: Path, membership: Path) -> Iterator[int]:
    for group in group_directories("memory", mount, membership):
        with suppress(OSError, KeyError, ValueError):
            yield read(group)


def _is_unified(group: Path) -> bool:
    return (group / "memory.max").exists()


def _limit(group: Path) -> int:
    """Bytes that the group may use. Raises ValueError if it has no limit."""
    return int((group / ("memory.max" if _is_unified(group) else "memory.limit_in_bytes")).read_text())


def _unused(group: Path) -> int:
    """Bytes that the group may still take. Raises ValueError if it has no limit."""
    is_unified = _is_unified(group)
    used = "memory.current" if is_unified else "memory.usage_in_bytes"
    lists = ("inactive_file", "active_file") if is_unified else ("total_inactive_file", "total_active_file")
    statistics = _numbers(group / "memory.stat")
    return _limit(group) - int((group / used).read_text()) + sum(statistics[name] for name in lists)


def _numbers(file: Path) -> dict[str, int]:
    """The content of a file whose lines are a name and a number."""
    return {words[0]: int(words[1]) for words in map(str.split, file.read_text().splitlines())}


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Cores in the process's affinity, or its CPU quota in cores, rounded up, if that is less; at least 1.

    For `mount` and `membership` see `group_directories`.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(ceil, _quotas(mount, membership))]))


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """The CPU quotas of the process's groups, in cores."""
    for group in group_directories("cpu", mount, membership):
        with suppress(OSError, ValueError):
            quota, period = _quota_of(group)
            if quota > 0 and period > 0:
                yield quota / period


def _quota_of(group: Path) -> tuple[int, int]:
    """(quota, period): microseconds of CPU time in each period of so many. Raises ValueError without a limit."""
    unified = group / "cpu.max"
    if unified.exists():
        quota, period = unified.read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)


_SHARE = 0.5  # of the free memory: a job has blocks, and a file of active rows
_LOOK_EVERY = 64  # questions: asking for the free memory takes as long as reading some rows
_STEADY = 0.9, 1.25  # times what is held: free memory that changes less moves no bound


class PageBudget:
    """The page cache is to hold as many of the first bytes of a run as half of the free memory does. Threads may ask.

    The kernel can take the memory back at any time. What is not held is best read past the page cache: pages that do
    not last until the next sweep only displace those that do.

    free           tells the bytes of memory that are free
    held_bytes     how many bytes are to be held
    lacked_memory  whether some that were asked for were not to be held
    """

    def __init__(self, free: Callable[[], int] = free_memory) -> None:
        self._free, self._until_look = free, 0
        self.held_bytes, self.lacked_memory = 0, False

    def holds(self, end: int) -> bool:
        """Whether the page cache is to hold bytes up to this one."""
        if self._until_look <= 0:  # threads may have counted below 0
            self._until_look = _LOOK_EVERY
            fits, held = int(_SHARE * self._free()), self.held_bytes
            if not _STEADY[0] * held <= fits <= _STEADY[1] * held:
                self.held_bytes = fits
        self._until_look -= 1
        is_held = end <= self.held_bytes
        self.lacked_memory |= not is_held
        return is_held
