"""Prepares the next items on other cores while the last one is still in use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")
Task = Callable[[], T]


def work_ahead(tasks: Iterable[Task[T] | None], pool: Executor, depth: int, wait: Callable[[], object]) -> Iterator[T]:
    """The results of the tasks, in their order, up to `depth` of them begun before they are asked for.

    A task may be None: none is known yet. `wait` is called then if nothing else is to be done.
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
