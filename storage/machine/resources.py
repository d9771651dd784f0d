"""The memory and the cores that this process can use: the machine's, limited by the process's control groups.

The limits are read from the kernel's files of each control group: cgroups(7), version 1 or 2.
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
    """Yield the directories of all control groups in which `controller` limits this process, the innermost first.

    mount       directory at which the control groups are mounted
    membership  the file in which the kernel lists the process's groups
    """
    for hierarchy, path in _groups(controller, mount, membership):
        for group in (path, *path.parents):
            # In a container the listed path may be the host's, while the mount already is the container's group.
            yield hierarchy / group.relative_to("/")


def _groups(controller: str, mount: Path, membership: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """Yield (directory of a hierarchy with the controller, path of the process's group in this hierarchy)."""
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
    """Return the bytes that this process can take without swapping; 0 if no file of the kernel gives a number.

    The page cache counts as free, since the kernel can drop it. For `mount` and `membership` see `group_directories`.
    """
    return max(0, min([*_available(machine), *_of_groups(_unused, mount, membership)], default=0))


def memory_limit(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine_bytes: int | None = None) -> int:
    """Return the bytes of memory that this process could use if no other process used memory."""
    return min([machine_bytes or machine_memory(), *_of_groups(_limit, mount, membership)])


def machine_memory() -> int:
    """Return the bytes of memory in the machine, regardless of this process's limits."""
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
    """Return the bytes that the group may use. Raises ValueError if the group has no limit."""
    return int((group / ("memory.max" if _is_unified(group) else "memory.limit_in_bytes")).read_text())


def _unused(group: Path) -> int:
    """Return the bytes that the group may take beside those in use. Raises ValueError if the group has no limit."""
    is_unified = _is_unified(group)
    used = "memory.current" if is_unified else "memory.usage_in_bytes"
    lists = ("inactive_file", "active_file") if is_unified else ("total_inactive_file", "total_active_file")
    statistics = _numbers(group / "memory.stat")
    return _limit(group) - int((group / used).read_text()) + sum(statistics[name] for name in lists)


def _numbers(file: Path) -> dict[str, int]:
    """Return the numbers by name from a file in which each line is a name and a number."""
    return {words[0]: int(words[1]) for words in map(str.split, file.read_text().splitlines())}


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Return the number of cores in the process's affinity, or its CPU quota, rounded up, if that is less; at least 1.

    For `mount` and `membership` see `group_directories`.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(ceil, _quotas(mount, membership))]))


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """Yield the CPU quotas of the process's groups, in cores."""
    for group in group_directories("cpu", mount, membership):
        with suppress(OSError, ValueError):
            unified = group / "cpu.max"
            if unified.exists():
                quota, period = map(int, unified.read_text().split())  # a ValueError without a limit
            else:
                quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            if quota > 0 and period > 0:  # so many us of CPU time in each period
                yield quota / period


_SHARE = 0.5  # share of the free memory for one budget: a job has a budget for blocks, and one for active rows
_LOOK_EVERY = 64  # calls of `holds` between two readings of the free memory, which take as long as reading some rows
_STEADY = 0.9, 1.25  # factors: `held_bytes` stays as it is while the bytes that fit are between these multiples of it


class PageBudget:
    """Decides which bytes the page cache is to hold: the first bytes of a file or dataset, up to half of free memory.

    Other bytes are best read past the page cache: pages that do not last until the next sweep only displace pages that
    do. The kernel can reclaim the memory at any time. Any thread may call `holds`.

    free           returns the number of free bytes of memory
    held_bytes     number of the first bytes to hold
    lacked_memory  whether `holds` has ever returned False
    """

    def __init__(self, free: Callable[[], int] = free_memory) -> None:
        self._free, self._until_look = free, 0
        self.held_bytes, self.lacked_memory = 0, False

    def holds(self, end: int) -> bool:
        """Whether the page cache is to hold the bytes up to offset `end`."""
        if self._until_look <= 0:  # threads may have counted below 0
            self._until_look = _LOOK_EVERY
            fits, held = int(_SHARE * self._free()), self.held_bytes
            if not _STEADY[0] * held <= fits <= _STEADY[1] * held:
                self.held_bytes = fits
        self._until_look -= 1
        is_held = end <= self.held_bytes
        self.lacked_memory |= not is_held
        return is_held
