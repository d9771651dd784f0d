"""The memory this process can have: that of the machine, limited by the control groups of the process."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from streamsvm.storage.machine.control_groups import MEMBERSHIP, MOUNT, group_directories

MACHINE = Path("/proc/meminfo")


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
