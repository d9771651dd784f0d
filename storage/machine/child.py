"""Starting, protecting and ending a process of the program, and settings for its files and memory."""

import ctypes
import gc
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
_RESIDENT, _SHARED, _DATA = 1, 2, 5  # figures of /proc/self/statm


def child_environment() -> dict[str, str]:
    """The environment for a child that calls `die_with_parent`.

    Linear algebra has one thread there, unless this environment says otherwise: its threads spin between short products
    and take the cores from processes that work.
    """
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, PARENT_VARIABLE: _this_thread()}


def _this_thread() -> str:
    return f"{os.getpid()}/task/{threading.get_native_id()}"


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends, for whatever reason. Linux only.

    When memory runs out the kernel kills this process before its parent, unless that holds much more memory: a worker
    outlives a job that does not fit. It lifts a bound that the parent has set itself, `OWN_MEMORY`. Call it once. Does
    nothing in a process that was not started with `child_environment`.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    _limit(resource.RLIMIT_DATA, resource.getrlimit(resource.RLIMIT_DATA)[1])
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


class OwnMemory:
    """Lets allocations of this process fail once it is bound to what it has then and some bytes more.

    RLIMIT_DATA counts address space. Stacks of threads that wait, and what was freed in pieces, would leave no room for
    good after many requests at once: `renew` counts what is in memory, and lets address space grow by twice as much.
    """

    _most = _most_space = 0

    def bound(self, n_bytes: int) -> None:
        """Bound it to so many bytes more than it has."""
        self._most, self._most_space = _in_memory() + n_bytes, _page_bytes(_DATA) + 2 * n_bytes
        self.renew()

    def renew(self) -> None:
        """Give back to the kernel what is free, and allow as much as is not in memory; nothing without a bound."""
        if self._most:
            gc.collect()  # a traceback that holds itself holds a body
            if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
                trim(0)
            free = max(0, self._most - _in_memory())
            _limit(resource.RLIMIT_DATA, min(_page_bytes(_DATA) + free, self._most_space))


OWN_MEMORY = OwnMemory()


def _page_bytes(figure: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[figure]) * resource.getpagesize()


def _in_memory() -> int:
    return _page_bytes(_RESIDENT) - _page_bytes(_SHARED)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class WorkLimit:
    """Memory that this process may take beside what it has: 768 MiB, and 32 bytes for each byte of its input.

    An allocation beyond that fails, as one beyond three quarters of the machine's memory does, if these are more than
    768 MiB: what is allocated is not all used. Where memory runs out all the same, the kernel ends this process before
    others. It also does after ten minutes of a processor, and a second for each 100 kB of the input.
    """

    def __init__(self) -> None:
        self._held = _page_bytes(_DATA)
        self._of_machine = max(_MOST_MEMORY, memory_limit() * 3 // 4)
        self._input_bytes = 0
        with suppress(OSError):
            _OOM_SCORE.write_text("1000")
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
        _limit(resource.RLIMIT_DATA, self._held + self.most)
        _limit(resource.RLIMIT_CPU, seconds)
