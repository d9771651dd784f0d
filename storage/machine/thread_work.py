"""Work of threads, and work whose caller may leave before it ends: loops check whether the caller waits."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, local
from typing import TypeVar

T = TypeVar("T")


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


def work_ahead(
    tasks: Iterable[Callable[[], T] | None], pool: Executor, depth: int, wait: Callable[[], object] = lambda: None
) -> Iterator[T]:
    """Yield the results of the tasks, in order; `pool` begins up to `depth` tasks before their results are needed.

    None in place of a task means that the next task is not known yet: if no task has begun, `wait` is called.
    """
    begun: deque[Future[T]] = deque()
    for task in tasks:
        if task is not None:
            begun.append(pool.submit(task))
            if len(begun) > depth:
                yield begun.popleft().result()
        elif begun:
            yield begun.popleft().result()
        else:
            wait()
    while begun:
        yield begun.popleft().result()


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
