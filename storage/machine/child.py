"""A process that must not outlive the one that started it."""

import ctypes
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


PARENT_VARIABLE = "STREAMSVM_PARENT_PID"


def child_environment() -> dict[str, str]:
    """Environment for a child that calls `die_with_parent`.

    Linear algebra with one thread, unless asked otherwise: threads that spin between short products take the cores from
    the processes that work.
    """
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, PARENT_VARIABLE: _this_thread()}


def _this_thread() -> str:
    """The number of this thread in /proc."""
    return f"{os.getpid()}/task/{threading.get_native_id()}"


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread ends that started it, however it ends. Linux only.

    Does nothing in a process that was not started with `child_environment`.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before the request.
    if os.getppid() != int(parent.partition("/")[0]) or not Path("/proc", parent).exists():
        os._exit(1)


def keep_private() -> None:
    """Keep files that this process and its children make from now on for their user alone."""
    os.umask(0o077)


def leave(code: int = 0) -> NoReturn:
    """End this process, all done: what Python would tidy up takes it a third of a second, and the kernel none."""
    with suppress(BrokenPipeError):  # whoever reads this has seen enough
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
