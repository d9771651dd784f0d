"""How much memory there is, and is free: the machine's, or what the control groups of this process leave of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from streamsvm.storage.machine.control_groups import MEMBERSHIP, MOUNT, group_directories

MACHINE = Path("/proc/meminfo")


def free_memory(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> int:
    """Bytes that can be had without swapping. What the page cache holds counts as free: the kernel gives it back.

    See `group_directories`. 0 if nothing says.
    """
    return max(0, min([*_of_machine(machine), *_of_groups(_left, mount, membership)], default=0))


def memory_limit(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine_bytes: int | None = None) -> int:
    """Bytes that this process could have if nobody else had any."""
    return min([machine_bytes or machine_memory(), *_of_groups(_most, mount, membership)])


def machine_memory() -> int:
    """Bytes of the machine, whatever this process may have of them."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_machine(machine: Path) -> Iterator[int]:
    with suppress(OSError, KeyError, ValueError):
        yield _numbers(machine)["MemAvailable:"] << 10


def _of_groups(told: Callable[[Path], int], mount: Path, membership: Path) -> Iterator[int]:
    for group in group_directories("memory", mount, membership):
        with suppress(OSError, KeyError, ValueError):
            yield told(group)


def _is_unified(group: Path) -> bool:
    return (group / "memory.max").exists()


def _most(group: Path) -> int:
    """ValueError if the group has no limit."""
    return int((group / ("memory.max" if _is_unified(group) else "memory.limit_in_bytes")).read_text())


def _left(group: Path) -> int:
    """ValueError if the group has no limit."""
    is_unified = _is_unified(group)
    used = "memory.current" if is_unified else "memory.usage_in_bytes"
    lists = ("inactive_file", "active_file") if is_unified else ("total_inactive_file", "total_active_file")
    found = _numbers(group / "memory.stat")
    return _most(group) - int((group / used).read_text()) + sum(found[name] for name in lists)


def _numbers(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    return {words[0]: int(words[1]) for words in map(str.split, file.read_text().splitlines())}
