"""Starting, protecting and ending a process of the program, and settings for its files and memory."""

import ctypes
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PARENT_VARIABLE = "STREAMSVM_PARENT_PID"

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_OOM_STEP, _MOST_OOM_SCORE = 150, 1000  # thousandths of all memory, or of the control group's limit
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_REUSED = 4 << 20  # bytes: segments and pieces are smaller, a copy of w is not
_UNUSED_BYTES = 16 << 20


def child_environment() -> dict[str, str]:
    """The environment for a child that calls `die_with_parent`.

    Linear algebra has one thread there, unless this environment says otherwise: its threads spin between short products
    and take the cores from processes that work.
    """
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, PARENT_VARIABLE: _this_thread()}


def _this_thread() -> str:
    """The path of this thread below /proc."""
    return f"{os.getpid()}/task/{threading.get_native_id()}"


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends, for whatever reason. Linux only.

    When memory runs out the kernel kills this process before its parent, unless that holds much more memory: a worker
    outlives a job that does not fit. Call it once.

    Does nothing in a process that was not started with `child_environment`.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The thread may have ended before the request.
    if os.getppid() != int(parent.partition("/")[0]) or not Path("/proc", parent).exists():
        os._exit(1)
    with suppress(OSError):  # some sandboxes have no such file
        _OOM_SCORE.write_text(str(min(int(_OOM_SCORE.read_text()) + _OOM_STEP, _MOST_OOM_SCORE)))


def keep_private() -> None:
    """Let only this user read files that the process and its children make from now on."""
    os.umask(0o077)


def leave(code: int = 0) -> NoReturn:
    """End this process without Python's tidying up, which takes a third of a second; the kernel frees all the same."""
    with suppress(BrokenPipeError):  # nobody reads the output any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def keep_freed_memory() -> None:
    """Let this process keep 16 MiB of what it frees, for its next allocations.

    Each step of the cache frees as much as the next one needs. glibc would return that memory to the kernel, which
    clears it page by page when it is asked for again: a third of the time of a commit. Does nothing under another C
    library than glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_REUSED)
        mallopt(_M_TRIM_THRESHOLD, _UNUSED_BYTES)
