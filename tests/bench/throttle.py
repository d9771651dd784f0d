"""A block I/O control group (version 1): what its processes read of a disk comes at so many bytes a second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup/blkio")
_LIMIT = "blkio.throttle.read_bps_device"
_READ = """
import sys, time
with open(sys.argv[1] + "/cgroup.procs", "w") as group:
    group.write("0")
left = int(sys.argv[2])
began = time.perf_counter()
for path in sys.argv[3:]:
    with open(path, "rb", buffering=0) as file:
        while left > 0 and (piece := file.read(1 << 20)):
            left -= len(piece)
print((int(sys.argv[2]) - left) / (time.perf_counter() - began))
"""


def device_of(path: Path) -> str | None:
    """`major:minor` of the whole disk that a path is on; None if it is not on one (tmpfs, overlay, network)."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        return None
    device = device.resolve()
    whole = device.parent if (device / "partition").exists() else device
    return (whole / "dev").read_text().strip()


def reason_unusable(path: Path) -> str | None:
    """Why reading what lies at `path` cannot be throttled here, or None."""
    if not (MOUNT / _LIMIT).exists():
        return "no version 1 block I/O control group is mounted"
    if device_of(path) is None:
        return f"{path} is not on a disk"
    try:
        Throttle(path, 10**6).remove()
    except OSError as error:
        return f"no block I/O control group can be made: {error.strerror}"
    return None


class Throttle:
    """A group whose processes together read `bytes_per_second` of the disk at `path`; None: without a limit."""

    def __init__(self, path: Path, bytes_per_second: int | None) -> None:
        self.path = MOUNT / f"streamsvm-bench-{os.getpid()}"
        self.path.mkdir()
        try:
            if bytes_per_second is not None:
                (self.path / _LIMIT).write_text(f"{device_of(path)} {bytes_per_second}")
        except OSError:
            self.remove()
            raise

    def __enter__(self) -> Throttle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Its processes must have ended."""
        self.path.rmdir()

    def bytes_per_second(self, files: list[Path], most_bytes: int) -> float:
        """What a process in the group gets when it reads these files, up to `most_bytes` of them, and nothing else."""
        forget_pages(files)
        command = [sys.executable, "-c", _READ, self.path, str(most_bytes), *files]
        return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def forget_pages(files: list[Path]) -> None:
    """Let the next reader get these files from the disk."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
