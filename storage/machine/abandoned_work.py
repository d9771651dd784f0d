"""Work whose caller may leave before the work ends: loops check whether the caller waits, thread pools are dropped."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, local


@contextmanager
def pool_of(threads: int, name: str = "") -> Iterator[ThreadPoolExecutor]:
    """Make a pool of threads for the block. If the block raises, cancel tasks that have not begun, and do not wait.

    The garbage collector may close an abandoned iterator, in any thread. If that thread is just starting, it holds a
    lock of the module threading, and joining the pool's threads would wait for this lock for ever.
    """
    pool = ThreadPoolExecutor(threads, name)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


class _Thread(local):
    unwanted: Event | None = None


_thread = _Thread()


class Unwanted(Exception):
    """The caller has left and does not need the result of this work."""


@contextmanager
def wanted_until(unwanted: Event) -> Iterator[None]:
    """Within the block, let `check_wanted` raise Unwanted in this thread once any thread has set `unwanted`."""
    before, _thread.unwanted = _thread.unwanted, unwanted
    try:
        yield
    finally:
        _thread.unwanted = before


def check_wanted() -> None:
    """Raise Unwanted if the caller has left, see `wanted_until`. It is fast enough for inner loops."""
    unwanted = _thread.unwanted
    if unwanted is not None and unwanted.is_set():
        raise Unwanted
