"""A memory control group (version 1) around a run: the kernel itself counts, and kills what exceeds the limit.

    python -m tests.end_to_end.cgroup GROUPS DATASET RUN_DIRECTORY JOB_DIRECTORY SPEC

trains on DATASET with reader and trainer inside the group and prints the result; SPEC is a job in JSON. Groups of
several hierarchies have colons between them.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.processes.run import ProcessRun, prepare_run
from streamsvm.storage.blocks.manifest import read_manifest

MOUNT = Path("/sys/fs/cgroup/memory")
_ENTERING = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
_STALL_SECONDS = 120.0
_POLL_SECONDS = 0.1
_LONGEST_SECONDS = 1800


def own_group() -> Path:
    """The group of this process: what is made below it stays within the limits already set for it."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        # In a container the path may be the host's, and the mount already the container's own group.
        if "memory" in controllers.split(",") and (MOUNT / path.lstrip("/")).is_dir():
            return MOUNT / path.lstrip("/")
    return MOUNT


def reason_unusable() -> str | None:
    """Why no group can be made here, or None."""
    if not (MOUNT / "memory.limit_in_bytes").exists():
        return "no version 1 memory control group is mounted"
    try:
        MemoryGroup("probe", 1 << 30).remove()
    except OSError as error:
        return f"no memory control group can be made: {error.strerror}"
    return None


class MemoryGroup:
    """A group with a limit. Charged to it: all memory of its processes, tmpfs and page cache included."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        self.path = own_group() / f"streamsvm-test-{os.getpid()}-{name}"
        self.path.mkdir()
        try:
            (self.path / "memory.limit_in_bytes").write_text(str(limit_bytes))
            # Nothing may hide in swap.
            (self.path / "memory.swappiness").write_text("0")
        except OSError:
            self.remove()
            raise

    @property
    def peak(self) -> int:
        return self._number("memory.max_usage_in_bytes")

    @property
    def oom_kills(self) -> int:
        lines = (self.path / "memory.oom_control").read_text().splitlines()
        return int(dict(map(str.split, lines))["oom_kill"])

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Its processes must have ended."""
        self.path.rmdir()

    def _number(self, name: str) -> int:
        return int((self.path / name).read_text())


@dataclass(frozen=True)
class Done:
    """What a program came to, and the most that was charged to its group at once, in bytes."""

    returncode: int
    stdout: bytes
    stderr: bytes
    peak: int
    oom_kills: int


def run_command(name: str, limit_bytes: int, *words: object, stdin: IO[bytes] | None = None) -> Done:
    """Run a command in a group of its own; what exceeds the limit is killed."""
    group = MemoryGroup(name, limit_bytes)
    try:
        command = ["sh", "-c", _ENTERING, str(group.path), *map(str, words)]
        done = subprocess.run(command, stdin=stdin, capture_output=True, timeout=_LONGEST_SECONDS, check=False)
        return Done(done.returncode, done.stdout, done.stderr, group.peak, group.oom_kills)
    finally:
        group.remove()


def run_in(name: str, limit_bytes: int, module: str, *arguments: str, stdin: IO[bytes] | None = None) -> Done:
    """Run `python -m module` in a group of its own."""
    return run_command(name, limit_bytes, sys.executable, "-m", module, *arguments, stdin=stdin)


def run_job(name: str, limit_bytes: int, dataset: Path, directory: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """Train on a dataset with reader and trainer in a group of their own; return the result.

    The directory has the history of the job then, and its run in `run`.
    """
    group = MemoryGroup(name, limit_bytes)
    try:
        paths = map(str, (group.path, dataset, directory / "run", directory))
        command = [sys.executable, "-m", "tests.end_to_end.cgroup", *paths, json.dumps(spec)]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, group.oom_kills) == (0, 0), done.stderr
        return json.loads(done.stdout)
    finally:
        group.remove()


def main(groups: str, dataset: Path, run_directory: Path, job_directory: Path, spec: str) -> None:
    """Body of the launcher. What it has loaded by now is not charged to the group, what it starts from now on is."""
    for group in groups.split(":"):
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    prepare_run(run_directory, plan_job(parse_spec(json.loads(spec)), read_manifest(dataset)), dataset)
    run = ProcessRun(run_directory, job_directory, _STALL_SECONDS)
    try:
        run.start()
        while not run.poll():
            time.sleep(_POLL_SECONDS)
        print(json.dumps(run.results()[0]))
    finally:
        run.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]), sys.argv[5])
