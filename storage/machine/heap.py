"""What becomes of memory that a process frees."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST = 4 << 20  # segments, pieces, not a copy of w
_KEPT = 16 << 20


def keep_freed_memory() -> None:
    """Keep some MiB of what this process frees, for what it allocates next: a step frees what the next one needs.

    The kernel would else take it back each time, and clear it page by page when it is asked for again: a third of the
    time of a commit. Does nothing where the C library is another than glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
