"""How much memory is free: the machine's, or what the control groups of this process leave of it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from storage.control_groups import MEMBERSHIP, MOUNT, group_directories

MACHINE = Path("/proc/meminfo")


def free_memory(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> int:
    """Bytes that can be had without swapping. What the page cache holds counts as free: the kernel gives it back.

    See `group_directories`. 0 if nothing says.
    """
    return max(0, min([*_of_machine(machine), *_of_groups(mount, membership)], default=0))


def _of_machine(machine: Path) -> Iterator[int]:
    with suppress(OSError, KeyError, ValueError):
        yield _numbers(machine)["MemAvailable:"] << 10


def _of_groups(mount: Path, membership: Path) -> Iterator[int]:
    for group in group_directories("memory", mount, membership):
        with suppress(OSError, KeyError, ValueError):
            yield _left(group)


def _left(group: Path) -> int:
    """ValueError if the group has no limit."""
    is_unified = (group / "memory.max").exists()
    most, used = ("memory.max", "memory.current") if is_unified else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    lists = ("inactive_file", "active_file") if is_unified else ("total_inactive_file", "total_active_file")
    found = _numbers(group / "memory.stat")
    return int((group / most).read_text()) - int((group / used).read_text()) + sum(found[name] for name in lists)


def _numbers(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    return {words[0]: int(words[1]) for words in map(str.split, file.read_text().splitlines())}
