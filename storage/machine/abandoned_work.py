"""Work whose caller may leave before it ends: loops ask whether they are still wanted, pools of threads are dropped."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, local


@contextmanager
def pool_of(threads: int, name: str = "") -> Iterator[ThreadPoolExecutor]:
    """A pool that cancels the tasks that have not begun, and waits for none, if the block is left by an exception.

    The garbage collector closes an iterator that was dropped, in any thread. If that thread holds a lock of the module
    threading, because it begins just now, joining the pool's threads would wait for that lock for ever.
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
    """The caller of this work has left."""


@contextmanager
def wanted_until(unwanted: Event) -> Iterator[None]:
    """Inside the block, `check_wanted` raises Unwanted in this thread once any thread has set the event."""
    before, _thread.unwanted = _thread.unwanted, unwanted
    try:
        yield
    finally:
        _thread.unwanted = before


def check_wanted() -> None:
    """Raise Unwanted if the caller has left. Costs next to nothing."""
    unwanted = _thread.unwanted
    if unwanted is not None and unwanted.is_set():
        raise Unwanted
