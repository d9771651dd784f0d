"""Locks a data directory for one process of a kind, and tells whether the api or the worker is alive.

Containers run the health checks:

python -m streamsvm.service.processes.health api --port 8000
python -m streamsvm.service.processes.health worker --data-dir /data

Imports nothing that takes time.
"""

import argparse
import fcntl
import os
import sys
import time
import urllib.request
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.opening import unusable
from streamsvm.service.settings import Settings

# The longest a worker is busy with one thing: making a model of 2^27 weights durable, on a slow disk.
SILENCE_SECONDS = 60.0
_ANSWER_SECONDS = 5.0


def lock(data_dir: Path, kind: str) -> int:
    """Lock the data directory for a process of this kind, "api" or "worker"; return the lock's file descriptor.

    Raises ServiceError `already_running` if another process holds the lock, `data_dir_unusable` if it cannot be made.
    """
    try:
        descriptor = os.open(data_dir / f"{kind}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise unusable(data_dir, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ServiceError("already_running", f"another {kind} uses {data_dir}", "One is enough.") from None
    return descriptor


def give_sign(descriptor: int) -> None:
    """Give a sign of life as the holder of the lock."""
    os.utime(descriptor)


def last_sign(data_dir: Path, kind: str) -> float | None:
    """Return when the lock's holder last gave a sign of life, in seconds since the epoch; None: nobody holds it."""
    try:
        return (data_dir / f"{kind}.lock").stat().st_mtime or None
    except FileNotFoundError:
        return None


def unlock(descriptor: int) -> None:
    """Release the lock for another process; this process gives no more signs of life."""
    os.utime(descriptor, (0, 0))
    os.close(descriptor)


def worker_is_there(data_dir: Path) -> bool:
    """Return whether a worker has the data directory and gives signs of life."""
    sign = last_sign(data_dir, "worker")
    return sign is not None and time.time() - sign < SILENCE_SECONDS


def main() -> int:
    """Run the health check of the command line; return exit code 0 if the process is alive, 1 if it is not."""
    parser = argparse.ArgumentParser(prog="python -m streamsvm.service.processes.health", description=__doc__)
    parser.add_argument("process", choices=("api", "worker"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    if options.process == "api":
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{options.port}/v2/health/ready", timeout=_ANSWER_SECONDS).close()
        except OSError:
            return 1
        return 0
    return 0 if worker_is_there(Settings.from_environment(options.data_dir).data_dir) else 1


if __name__ == "__main__":
    sys.exit(main())
