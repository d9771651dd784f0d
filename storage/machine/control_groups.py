"""Which control groups this process is in, for whoever asks what they let it use (cgroups(7), version 1 or 2)."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def group_directories(controller: str, mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Iterator[Path]:
    """Directories of the groups by which the controller limits the process. Each limit holds for all below it.

    mount       of the control groups
    membership  the file that says which the process is in
    """
    for hierarchy, path in _groups(controller, mount, membership):
        for group in (path, *path.parents):
            # In a container the path may be the host's, and the mount already the container's own group.
            yield hierarchy / group.relative_to("/")


def _groups(controller: str, mount: Path, membership: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """Where the hierarchy of the controller is, and the group in it."""
    lines = []
    with suppress(OSError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield mount, PurePosixPath(path)
        elif controller in controllers.split(","):
            yield mount / controllers, PurePosixPath(path)
