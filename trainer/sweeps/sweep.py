"""One sweep: which rows are visited, window by window, by how many threads, and what the visits met."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from math import inf, sqrt

import numpy as np

from streamsvm.storage.rows.csr import Array, Figure
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.kernels.order import random_order
from streamsvm.trainer.sweeps.schedule import WHOLE_EVERY
from streamsvm.trainer.updates.sums import NONE, Sums
from streamsvm.trainer.updates.updater import Visiting, Visits

# Rows that rest by more than margins have moved lately, and by what the reader screens by default, may be left out.
LEAST_SLACK = 0.1

Choose = Callable[[Segment], Array]
Learn = Callable[[Segment, Array, Visits], None]


@dataclass
class Met:
    """Each row as it was when it was visited; what has been left out of the sweep is not in here.

    visits  rows visited
    """

    visits: int = 0
    sums: Sums = NONE

    def add(self, visits: Visits) -> None:
        """More rows have been visited."""
        self.visits += len(visits.score)
        self.sums = self.sums.plus(visits.sums)

    @property
    def distance(self) -> Figure:
        """M+ - M-."""
        return self.sums.M_plus - self.sums.M_minus

    @property
    def moved(self) -> float:
        """By how much margins have moved since the rows' last visits, root mean square; where it is most, of lanes."""
        return sqrt(float(np.max(self.sums.squares)) / max(self.visits, 1))

    @property
    def slack(self) -> float:
        """Rows that rest by more may be left out of the next sweep."""
        return max(LEAST_SLACK, self.moved)


@dataclass(frozen=True)
class Threads:
    """So many workers that visit windows side by side; without a pool the caller visits them itself."""

    count: int = 1
    pool: Executor | None = None

    @property
    def lent(self) -> int:
        """Windows in use at a time: one waits while each worker has one."""
        return self.count + 1 if self.pool else 1


ALONE = Threads()


def threads_for(count: int, stack: ExitStack) -> Threads:
    """So many, until the stack is left."""
    return ALONE if count <= 1 else Threads(count, stack.enter_context(ThreadPoolExecutor(count)))


def shuffled(rng: np.random.Generator) -> Choose:
    """All rows of each window, in random order."""
    return lambda rows: random_order(len(rows), rng)


def sweep(
    windows: Iterable[Segment],
    choose: Choose,
    visitor: Visiting,
    threads: Threads = ALONE,
    learn: Learn | None = None,
    met: Met | None = None,
) -> Met:
    """Visit the rows of each window that are chosen.

    choose  the positions (k,) int32 to visit, one after the other
    learn   is given what was visited, window by window
    met     what has been met before, to be added to
    """
    met = met or Met()
    for rows, order, visits in _visited(windows, choose, visitor, threads):
        visitor.take(rows, order, visits)
        met.add(visits)
        if learn is not None:
            learn(rows, order, visits)
    return met


def _visited(
    windows: Iterable[Segment], choose: Choose, visitor: Visiting, threads: Threads
) -> Iterator[tuple[Segment, Array, Visits]]:
    if threads.pool is None:
        for rows in windows:
            order = choose(rows)
            yield rows, order, visitor.visit(rows, order)
        return
    begun: deque[tuple[Segment, Array, Future[Visits]]] = deque()
    try:
        for rows in windows:
            order = choose(rows)
            begun.append((rows, order, threads.pool.submit(visitor.visit, rows, order, False)))
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


class Rounds:
    """Sweep after sweep over rows that come and go meanwhile: `visit_some` as often as there is time.

    Rows that rest are left out of the short sweeps.

    windows  of a sweep over the rows with these ids (k,) that are active (k,) bool
    score    (n_rows,) of the last visits
    """

    def __init__(
        self,
        windows: Callable[[Callable[[Array], Array], np.random.Generator], Iterator[Segment]],
        score: Array,
        visitor: Visiting,
        threads: Threads,
    ) -> None:
        self._new_windows = windows
        self._score = score
        self._visitor = visitor
        self._threads = threads
        self.begin_section()

    def begin_section(self) -> None:
        """A sweep ends where a section does, and the next one is whole."""
        self._windows: Iterator[Segment] = iter(())
        self._n_sweeps = 0
        self._met = Met()
        self._slack = inf

    def visit_some(self, rng: np.random.Generator) -> int:
        """Visit some rows that do not rest; returns how many. There have to be rows."""
        before = self._met.visits
        while True:
            some = list(islice(self._windows, self._threads.count))
            sweep(some, shuffled(rng), self._visitor, self._threads, met=self._met)
            if self._met.visits > before:
                return self._met.visits - before
            if not some:
                self._begin_sweep(rng)
                before = 0

    def _begin_sweep(self, rng: np.random.Generator) -> None:
        self._slack = self._met.slack if self._n_sweeps % WHOLE_EVERY else inf
        self._n_sweeps += 1
        self._met = Met()
        self._windows = self._new_windows(self._is_active, rng)

    def _is_active(self, row_id: Array) -> Array:
        return self._score[row_id] <= self._slack
