"""The control groups of this process, whose files say what it may use: cgroups(7), version 1 or 2."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


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
