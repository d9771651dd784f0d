"""Lets one thread at a time do work in pure Python that goes over a hundred thousand names.

Several such threads would hand the interpreter to each other, and all others would wait for each of them in turn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from streamsvm.storage.machine.abandoned_work import check_wanted

LARGE_BYTES = 1 << 16  # some milliseconds of work
_LOOK_SECONDS = 0.1

_busy = Lock()


@contextmanager
def one_at_a_time(size: int) -> Iterator[None]:
    """Inside the block no other thread does work on a text of at least LARGE_BYTES; a smaller one waits for nobody.

    size  bytes of the text to work on
    Raises Unwanted if the caller of the work leaves while it waits.
    """
    if size < LARGE_BYTES:
        yield
        return
    while not _busy.acquire(timeout=_LOOK_SECONDS):
        check_wanted()
    try:
        yield
    finally:
        _busy.release()
