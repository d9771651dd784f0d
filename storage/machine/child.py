"""Starts, protects and ends a process of the program; settings of its files and limits of its memory."""

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
    """Return the environment variables for a child process that calls `die_with_parent`.

    They give linear algebra one thread, unless this process's environment says otherwise: OpenBLAS's threads spin
    between short products, and take cores from processes that work.
    """
    this_thread = f"{os.getpid()}/task/{threading.get_native_id()}"
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, PARENT_VARIABLE: this_thread}


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends, for whatever reason. Linux only.

    When memory runs out the kernel then kills this process before its parent, unless the parent holds much more memory:
    so a worker survives a job that does not fit. Also lifts the memory bound that the parent has set for itself
    (`OWN_MEMORY`). Call it once. Does nothing in a process that was not started with `child_environment`.
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
    """Set the umask, so that only this user can read files that the process and its children make from now on."""
    os.umask(0o077)


def leave(code: int = 0) -> NoReturn:
    """End this process without Python's cleanup, which takes a third of a second; the kernel frees all resources."""
    with suppress(BrokenPipeError):  # nobody reads the output any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def keep_freed_memory() -> None:
    """Let the C library keep 16 MiB of the memory that this process frees, for its next allocations.

    Each step of the cache frees as much memory as the next step needs. glibc would return it to the kernel, which
    clears each page when it is allocated again: a third of the time of a commit. Does nothing with a C library other
    than glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_REUSED)
        mallopt(_M_TRIM_THRESHOLD, _UNUSED_BYTES)


class OwnMemory:
    """Bounds the memory of this process: after `bound`, allocations fail if they exceed the bound.

    RLIMIT_DATA limits address space. After many requests at once, stacks of waiting threads and fragments of freed
    memory would use it up for good: so `renew` counts the bytes in memory, and allows up to twice the address space.
    """

    _most = _most_space = 0

    def bound(self, n_bytes: int) -> None:
        """Bound the process to `n_bytes` more than it holds now."""
        self._most, self._most_space = _in_memory() + n_bytes, _page_bytes(_DATA) + 2 * n_bytes
        self.renew()

    def renew(self) -> None:
        """Return free memory to the kernel, and set the limit by the memory in use; without a bound do nothing."""
        if self._most:
            gc.collect()  # frees bodies of requests in cycles of tracebacks
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
    """Limits what this process may take from now on to read its input: memory and processor time.

    Memory: 768 MiB, and 32 bytes for each byte of input, but at most three quarters of the machine's memory or 768 MiB,
    whichever is more. An allocation beyond the limit fails. If the machine runs out of memory, the kernel ends this
    process first. Time: ten minutes, and a second for each 100 kB of input; then the kernel ends the process.
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
        """The bytes that the process may take beside those that it held at first, for the input counted so far."""
        return min(_MOST_MEMORY + _MEMORY_FOR_A_BYTE * self._input_bytes, self._of_machine)

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of an input; raise the limits for each of them."""
        for chunk in chunks:
            self.count(len(chunk))
            yield chunk

    def count(self, input_bytes: int) -> None:
        """Raise the limits for `input_bytes` further bytes of input."""
        self._input_bytes += input_bytes
        seconds = _MOST_SECONDS + self._input_bytes // _BYTES_FOR_A_SECOND
        _limit(resource.RLIMIT_DATA, self._held + self.most)
        _limit(resource.RLIMIT_CPU, seconds)
