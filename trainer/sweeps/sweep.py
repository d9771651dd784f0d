"""Makes sweeps, window by window, by one or more threads; decides which sweep is next, and which rows it visits."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.updates.statistics import SweepStatistics, Visits
from streamsvm.trainer.updates.updater import CoordinateUpdater

T = TypeVar("T")
Choose = Callable[[Segment], Array]
Learn = Callable[[Segment, Array, Visits], None]

# Short sweeps leave out rows that rest; but a row that rests while w is far from the optimum may have to move later.
WHOLE_EVERY = 5
# Measured: with 63 MB of rows two threads take as long as one, or longer; with 456 MB two thirds of that.
_SHARED_BYTES, _SHARED_ROW_BYTES = 1 << 27, 512


@dataclass(frozen=True)
class Threads:
    """Threads that visit windows side by side; without a pool, the caller's thread visits them."""

    count: int = 1
    pool: Executor | None = None

    @property
    def lent(self) -> int:
        """Number of windows in use at a time: one for each thread, and one that waits."""
        return self.count + 1 if self.pool else 1


ALONE = Threads()


def threads_for(count: int, stack: ExitStack) -> Threads:
    """Return `count` threads, which end when the stack is closed."""
    return ALONE if count <= 1 else Threads(count, stack.enter_context(ThreadPoolExecutor(count)))


def shuffled(rng: np.random.Generator) -> Choose:
    """Return a function that chooses all rows of a window, in random order."""
    return lambda rows: random_order(len(rows), rng)


def in_order(rows: Segment) -> Array:
    """Return the positions of all rows of a window, in order, (n,) int32."""
    return np.arange(len(rows), dtype=np.int32)


def sweep(
    windows: Iterable[Segment],
    choose: Choose,
    updater: CoordinateUpdater,
    threads: Threads = ALONE,
    learn: Learn | None = None,
    statistics: SweepStatistics | None = None,
) -> SweepStatistics:
    """Visit rows of each window; return the statistics of the sweep.

    choose      window -> the positions (k,) int32 to visit in it, in their order
    learn       is called with each window, its positions and its visits
    statistics  statistics of the sweep so far, to which this call adds
    """
    statistics = statistics or SweepStatistics.none(updater.count)

    def visit(rows: Segment, order: Array) -> tuple[Segment, Array, Visits]:
        return rows, order, updater.visit(rows, order, threads.pool is None)

    tasks = (partial(visit, rows, choose(rows)) for rows in windows)
    for rows, order, visits in in_turn(tasks, threads.pool, threads.lent):
        updater.take(rows, order, visits)
        statistics.add(visits)
        if learn is not None:
            learn(rows, order, visits)
    return statistics


def in_turn(tasks: Iterable[Callable[[], T]], pool: Executor | None, most: int) -> Iterator[T]:
    """Yield the results of tasks in order. The pool's threads do `most` at a time; without a pool the caller's does.

    No task is under way any more when the iterator has ended, or was closed.
    """
    if pool is None:
        yield from (task() for task in tasks)
        return
    begun: deque[Future[T]] = deque()
    try:
        for task in tasks:
            begun.append(pool.submit(task))
            if len(begun) == most:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        wait(begun)


class ResidentSweeps:
    """Sweeps over the rows in the cache while the reader replaces some of them: call `visit_some` while there is time.

    Short sweeps leave out rows that rest.

    windows  (is_active, rng) -> the windows of a sweep over the rows that are active: is_active(ids (k,)) -> (k,) bool
    score    (n_rows,) scores of the rows' last visits, by row id
    """

    def __init__(
        self,
        windows: Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]],
        score: Array,
        updater: CoordinateUpdater,
        threads: Threads,
    ) -> None:
        self._new_windows = windows
        self._score = score
        self._updater = updater
        self._threads = threads
        self.begin_section()

    def begin_section(self) -> None:
        """End the sweep; the next sweep visits all rows."""
        self._windows: Iterator[Segment] = iter(())
        self._n_sweeps = 0
        self._statistics = SweepStatistics.none(self._updater.count)
        self._slack = inf

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit one or more rows that do not rest; return their number. The cache must not be empty."""
        before = self._statistics.visits
        while True:
            some = list(islice(self._windows, self._threads.count))
            sweep(some, shuffled(rng), self._updater, self._threads, statistics=self._statistics)
            if self._statistics.visits > before:
                return self._statistics.visits - before
            if not some:
                self._begin_sweep(rng)
                before = 0

    def _begin_sweep(self, rng: np.random.Generator) -> None:
        self._slack = self._statistics.slack if self._n_sweeps % WHOLE_EVERY else inf
        self._n_sweeps += 1
        self._statistics = SweepStatistics.none(self._updater.count)
        self._windows = self._new_windows(lambda row_id: self._score[row_id] <= self._slack, rng)


class Next(Enum):
    """What follows a sweep. WHOLE: a sweep over all rows. SHORT: one over rows that do not rest. STOP: no sweep."""

    WHOLE = "whole"
    SHORT = "short"
    STOP = "stop"


def next_sweep(sweeps: int, has_to_end: bool) -> Next:
    """Return what follows `sweeps` sweeps: the first sweep is whole, and so is every fifth after it.

    has_to_end  whether the targets are likely reached, or the time is over
    """
    if has_to_end:
        return Next.STOP
    return Next.SHORT if sweeps % WHOLE_EVERY else Next.WHOLE


def is_told(sweep: int) -> bool:
    """Whether a history lists the sweep of this number: it lists the first 31, and ever fewer of the later ones."""
    return sweep % (1 << max(0, sweep.bit_length() - 5)) == 0


def is_worth_threads(n_bytes: int, n_rows: int) -> bool:
    """Whether threads should share sweeps over `n_rows` rows of `n_bytes` bytes in all: on few bytes, threads wait.

    Rows have to be long on average, since a thread adds a row to w under a lock.
    """
    return n_bytes >= _SHARED_BYTES and n_bytes >= _SHARED_ROW_BYTES * n_rows
