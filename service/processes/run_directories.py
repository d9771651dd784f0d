"""Places the files of runs: in memory if there is room, else on the disk of the data directory."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from streamsvm.service.settings import Settings
from streamsvm.storage.run.state import read_control

_SPARE_BYTES = 16 << 20
_DISK_BLOCK = 512  # bytes, in which st_blocks counts
_SHOWN = "run"  # name of the link in a job's directory to the run directory of its attempt


class RunDirectories:
    """Run directories of one data directory; their names distinguish them from those of other data directories."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        found = settings.data_dir.stat()
        self._prefix = f"streamsvm-{found.st_dev:x}-{found.st_ino:x}-"
        self._placed: dict[Path, int] = {}  # bytes that the runs of other jobs may take

    def place(self, record: dict[str, Any], lane: int, run_bytes: int) -> Path:
        """Return a path for a new run directory, with `run_bytes` bytes of files. No two attempts share a path."""
        base = self._settings.cache_dir
        self._placed = {directory: size for directory, size in self._placed.items() if directory.is_dir()}
        to_come = sum(max(0, size - _taken(path)) for path, size in self._placed.items() if path.parent == base)
        if not has_room(base, run_bytes + to_come):
            base = self._settings.jobs
        directory = base / f"{self._prefix}{record['id']}-{len(record['transitions'])}-{lane}"
        self._placed[directory] = run_bytes
        return directory

    def show(self, job_id: str, directory: Path) -> None:
        """Link the run directory from the job's directory, where the api reads the state of a running job."""
        self._link(job_id).unlink(missing_ok=True)
        self._link(job_id).symlink_to(directory)

    def remove(self, job_id: str, directory: Path) -> None:
        """Remove the run directory of an ended attempt, and the link to it."""
        shutil.rmtree(directory, ignore_errors=True)
        self._placed.pop(directory, None)
        self._link(job_id).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove the run directories that a worker left when it died."""
        for base in (self._settings.cache_dir, self._settings.jobs):
            for stale in base.glob(f"{self._prefix}*"):
                shutil.rmtree(stale, ignore_errors=True)

    def trained_seconds(self, job_id: str) -> float | None:
        """Read from a job's run directory how many seconds it has been trained; None if that cannot be read."""
        with suppress(Exception):  # whatever is there: a worker has died
            return read_control(self._link(job_id))["elapsed_seconds"]
        return None

    def _link(self, job_id: str) -> Path:
        return self._settings.jobs / job_id / _SHOWN


def _taken(directory: Path) -> int:
    """Return the bytes on disk of a directory's files; files that are being removed count as gone."""
    taken = 0
    for path in directory.iterdir():
        with suppress(OSError):
            taken += path.stat().st_blocks * _DISK_BLOCK
    return taken


def has_room(directory: Path, run_bytes: int) -> bool:
    """Return whether the directory has room for the `run_bytes` bytes of a run's files."""
    return directory.is_dir() and shutil.disk_usage(directory).free >= run_bytes + _SPARE_BYTES


@contextmanager
def temporary_directory(base: Path | None, prefix: str) -> Iterator[Path]:
    """Make a directory, which is removed at the end of the context. Its name has the number of this process."""
    directory = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
