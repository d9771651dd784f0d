"""Sweeps: which sweep comes next, which rows it visits, window by window, and with how many threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from math import inf

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.updates.statistics import SweepStatistics, Visits
from streamsvm.trainer.updates.updater import CoordinateUpdater

Choose = Callable[[Segment], Array]
Learn = Callable[[Segment, Array, Visits], None]

# Short sweeps leave out rows that rest; but a row that rests while w is far from the optimum may have to move later.
WHOLE_EVERY = 5
# Measured: with 63 MB of rows two threads take as long as one, or longer; with 456 MB two thirds of that.
_SHARED_BYTES, _SHARED_ROW_BYTES = 1 << 27, 512


@dataclass(frozen=True)
class Threads:
    """Workers that visit windows side by side; without a pool the caller visits them itself."""

    count: int = 1
    pool: Executor | None = None

    @property
    def lent(self) -> int:
        """Windows in use at a time: one waits while each worker has one."""
        return self.count + 1 if self.pool else 1


ALONE = Threads()


def threads_for(count: int, stack: ExitStack) -> Threads:
    """`count` threads, which end when the stack is left."""
    return ALONE if count <= 1 else Threads(count, stack.enter_context(ThreadPoolExecutor(count)))


def shuffled(rng: np.random.Generator) -> Choose:
    """Choose all rows of each window, in random order."""
    return lambda rows: random_order(len(rows), rng)


def in_order(rows: Segment) -> Array:
    """Choose all rows of a window, in order."""
    return np.arange(len(rows), dtype=np.int32)


def sweep(
    windows: Iterable[Segment],
    choose: Choose,
    updater: CoordinateUpdater,
    threads: Threads = ALONE,
    learn: Learn | None = None,
    statistics: SweepStatistics | None = None,
) -> SweepStatistics:
    """Visit rows of each window; returns the statistics of the sweep.

    choose      returns the positions (k,) int32 to visit in a window, in order
    learn       gets each window with the positions and the visits
    statistics  statistics of the sweep so far, to which this call adds
    """
    statistics = statistics or SweepStatistics.none(updater.count)
    for rows, order, visits in _visited(windows, choose, updater, threads):
        updater.take(rows, order, visits)
        statistics.add(visits)
        if learn is not None:
            learn(rows, order, visits)
    return statistics


def _visited(
    windows: Iterable[Segment], choose: Choose, updater: CoordinateUpdater, threads: Threads
) -> Iterator[tuple[Segment, Array, Visits]]:
    if threads.pool is None:
        for rows in windows:
            order = choose(rows)
            yield rows, order, updater.visit(rows, order)
        return
    begun: deque[tuple[Segment, Array, Future[Visits]]] = deque()
    try:
        for rows in windows:
            order = choose(rows)
            begun.append((rows, order, threads.pool.submit(updater.visit, rows, order, False)))
            if len(begun) == threads.lent:
                yield _result(begun)
        while begun:
            yield _result(begun)
    finally:
        for _, _, left in begun:
            left.exception()


def _result(begun: deque[tuple[Segment, Array, Future[Visits]]]) -> tuple[Segment, Array, Visits]:
    rows, order, visits = begun.popleft()
    return rows, order, visits.result()


class ResidentSweeps:
    """Sweeps over the rows in the cache while the reader replaces some of them: call `visit_some` while there is time.

    Short sweeps leave out rows that rest.

    windows  yields the rows of a sweep, of which a function of ids (k,) says which are active, (k,) bool
    score    (n_rows,) scores of the rows' last visits
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
        """End the sweep; the next one visits all rows."""
        self._windows: Iterator[Segment] = iter(())
        self._n_sweeps = 0
        self._statistics = SweepStatistics.none(self._updater.count)
        self._slack = inf

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows that do not rest; returns their number. The cache must not be empty."""
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
        self._windows = self._new_windows(self._is_active, rng)

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= self._slack


class Next(Enum):
    """WHOLE: a sweep over all rows. SHORT: over rows that do not rest. STOP: no sweep, but a look at all rows."""

    WHOLE = "whole"
    SHORT = "short"
    STOP = "stop"


def next_sweep(sweeps: int, has_to_end: bool) -> Next:
    """The sweep that follows `sweeps` sweeps: the first is whole, and so is each fifth.

    has_to_end  the targets are likely reached, or the time is over
    """
    if has_to_end:
        return Next.STOP
    return Next.SHORT if sweeps % WHOLE_EVERY else Next.WHOLE


def is_told(sweep: int) -> bool:
    """Whether a history lists the sweep of this number: it lists the first 31, and fewer and fewer later ones."""
    return sweep % (1 << max(0, sweep.bit_length() - 5)) == 0


def is_worth_threads(n_bytes: int, n_rows: int) -> bool:
    """Whether threads should share sweeps over rows of so many bytes: with fewer, waiting takes longer than it saves.

    Rows have to be long, since adding one to w takes a lock.
    """
    return n_bytes >= _SHARED_BYTES and n_bytes >= _SHARED_ROW_BYTES * n_rows
