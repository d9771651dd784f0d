"""Lets one process of a kind use a data directory: a lock that goes when the process ends, and signs of life."""

import fcntl
import os
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.opening import unusable


def lock(data_dir: Path, kind: str) -> int:
    """The lock's file descriptor.

    Raises ServiceError `already_running` if another process holds it, `data_dir_unusable` if there can be none.
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
    """The holder of the lock says that it lives."""
    os.utime(descriptor)


def last_sign(data_dir: Path, kind: str) -> float | None:
    """When its holder last did, in seconds since the epoch; None if there was none or it has ended."""
    try:
        return (data_dir / f"{kind}.lock").stat().st_mtime or None
    except FileNotFoundError:
        return None


def unlock(descriptor: int) -> None:
    """Let another process have it: there will be no more signs."""
    os.utime(descriptor, (0, 0))
    os.close(descriptor)
