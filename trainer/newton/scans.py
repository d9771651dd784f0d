"""Scans all rows of a store once, in the order in which they are stored, by several threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from functools import partial
from typing import TypeVar, cast

from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.segment import Segment
from streamsvm.trainer.rows.disk import RowStore
from streamsvm.trainer.shared_state import SharedState
from streamsvm.trainer.sweeps.sweep import ALONE, Threads, in_turn

_SHARED_BYTES = 1 << 23  # of rows: for fewer, threads wait longer than they work
SUMS = 4  # separate sums of a scan, added up in a fixed order at its end: more threads than sums are of no use

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
Look = Callable[[int, Segment], None]  # (which of the SUMS to add to, rows)


class Interrupted(Exception):
    """Ends a scan, or the solution of a system, early: the job is to end, or the store of rows has failed."""


def go_on(shared: SharedState, seconds: float) -> None:
    """Set the trainer's heartbeat for the next `seconds` seconds. Raises Interrupted if the job is interrupted."""
    if shared.is_interrupted:
        raise Interrupted
    shared.beat(seconds)


class Scans:
    """Scans a store: each call of `each` is a scan.

    going  passes segments on, until the job has to end
    """

    def __init__(
        self,
        store: RowStore,
        n_rows: int,
        visited: Visited,
        threads: Threads,
        going: Callable[[Iterator[Segment]], Iterator[Segment]],
    ) -> None:
        self._store, self._n_rows = store, n_rows
        self._visited, self._going = visited, going
        self._threads = threads if store.n_bytes >= _SHARED_BYTES else ALONE

    def each(self, look: Look, n_sums: int = SUMS) -> None:
        """Call `look`(sum, rows) for all rows: segment i is added to the sum i modulo n_sums. Raises Interrupted."""
        segments = enumerate(self._going(self._store.in_order()))
        tasks = (partial(self._look_at, look, number % n_sums, rows) for number, rows in segments)
        most = min(self._threads.count, n_sums)
        if sum(in_turn(tasks, self._threads.pool if most > 1 else None, most)) != self._n_rows:
            raise Interrupted

    def side_by_side(self, make: Callable[[_Item], _Made], items: Sequence[_Item]) -> list[_Made]:
        """Return the result of `make` for each item. The threads of a scan call it; all have ended at the return.

        Raises an error of `make`.
        """
        most = min(self._threads.count, SUMS, len(items))
        if self._threads.pool is None or most <= 1:
            return [make(item) for item in items]
        parts = [
            self._threads.pool.submit(lambda part: [make(item) for item in part], items[number::most])
            for number in range(most)
        ]
        wait(parts)
        made: list[_Made | None] = [None] * len(items)
        for number, part in enumerate(parts):
            made[number::most] = part.result()
        return cast(list[_Made], made)

    def _look_at(self, look: Look, into: int, rows: Segment) -> int:
        for batch in self._visited.all_batches(rows):
            look(into, batch)
        return len(rows)
