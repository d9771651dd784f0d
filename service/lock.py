"""One process of a kind for a data directory: a lock that goes with the process, however it ends."""

import fcntl
import os
from pathlib import Path

from service.errors import ServiceError


def lock(data_dir: Path, kind: str) -> int:
    """The lock's file descriptor; raises ServiceError `already_running` if another process holds it."""
    descriptor = os.open(data_dir / f"{kind}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ServiceError("already_running", f"another {kind} uses {data_dir}", "One is enough.") from None
    return descriptor
