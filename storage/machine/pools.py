"""Pools of threads for iterators, which may be dropped half-way."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


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
