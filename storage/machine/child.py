"""Starting, protecting and ending a process of the program, and settings for its files and memory."""

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from streamsvm.storage.machine.resources import memory_limit

PARENT_VARIABLE = "STREAMSVM_PARENT_PID"

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_OOM_STEP, _MOST_OOM_SCORE = 150, 1000  # thousandths of all memory, or of the control group's limit
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_REUSED = 4 << 20  # bytes: segments and pieces are smaller, a copy of w is not
_UNUSED_BYTES = 16 << 20
_MOST_MEMORY, _MEMORY_FOR_A_BYTE = 768 << 20, 32
_MOST_SECONDS, _BYTES_FOR_A_SECOND = 600, 100_000


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


class WorkLimit:
    """Memory that this process may take beside what it has: 768 MiB, and 32 bytes for each byte of its input.

    An allocation beyond that fails, as one beyond three quarters of the machine's memory does, if these are more than
    768 MiB: what is allocated is not all used. Where memory runs out all the same, the kernel ends this process before
    others. It also does after ten minutes of a processor, and a second for each 100 kB of the input.
    """

    def __init__(self) -> None:
        # The sixth figure is what RLIMIT_DATA is compared with.
        self._held = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        self._of_machine = max(_MOST_MEMORY, memory_limit() * 3 // 4)
        self._input_bytes = 0
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        self.count(0)

    @property
    def most(self) -> int:
        """The bytes that it may take now."""
        return min(_MOST_MEMORY + _MEMORY_FOR_A_BYTE * self._input_bytes, self._of_machine)

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks, and count them."""
        for chunk in chunks:
            self.count(len(chunk))
            yield chunk

    def count(self, input_bytes: int) -> None:
        """Allow for so many more bytes of input."""
        self._input_bytes += input_bytes
        seconds = _MOST_SECONDS + self._input_bytes // _BYTES_FOR_A_SECOND
        for what, most in ((resource.RLIMIT_DATA, self._held + self.most), (resource.RLIMIT_CPU, seconds)):
            _, hard = resource.getrlimit(what)
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
