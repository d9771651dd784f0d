"""One sweep: which rows are visited, window by window, and by how many threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from math import inf

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.sweeps.schedule import WHOLE_EVERY
from streamsvm.trainer.updates.statistics import SweepStatistics, Visits
from streamsvm.trainer.updates.updater import CoordinateUpdater

Choose = Callable[[Segment], Array]
Learn = Callable[[Segment, Array, Visits], None]


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
    """Threads until the stack is left."""
    return ALONE if count <= 1 else Threads(count, stack.enter_context(ThreadPoolExecutor(count)))


def shuffled(rng: np.random.Generator) -> Choose:
    """All rows of each window, in random order."""
    return lambda rows: random_order(len(rows), rng)


def sweep(
    windows: Iterable[Segment],
    choose: Choose,
    updater: CoordinateUpdater,
    threads: Threads = ALONE,
    learn: Learn | None = None,
    statistics: SweepStatistics | None = None,
) -> SweepStatistics:
    """Visit the rows of each window that are chosen.

    choose  the positions (k,) int32 to visit, one after the other
    learn   is given what was visited, window by window
    statistics  of the sweep so far, to be added to
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
    """Sweep after sweep over rows that come and go meanwhile: `visit_some` as often as there is time.

    Rows that rest are left out of the short sweeps.

    windows  of a sweep over the rows with these ids (k,) that are active (k,) bool
    score    (n_rows,) of the last visits
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
        """A sweep ends where a section does, and the next one is whole."""
        self._windows: Iterator[Segment] = iter(())
        self._n_sweeps = 0
        self._statistics = SweepStatistics.none(self._updater.count)
        self._slack = inf

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows that do not rest; returns how many. There have to be rows."""
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
