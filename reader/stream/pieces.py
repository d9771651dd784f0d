"""Streams one pass over a dataset: its pieces in the pass's order, decoded into rows that are ready for training.

One thread reads ahead. Other threads decode pieces ahead, and do whatever else concerns one piece alone.
"""

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from streamsvm.reader.certificate.folds import fold_of
from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.errors import DatasetCorrupt
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import with_features
from streamsvm.storage.files.direct import FileRange
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import written_ids
from streamsvm.storage.rows.segment import CODE, NO_COLUMN, OFFSET, ROW_ID, TARGET, Segment
from streamsvm.trainer.problem.tasks import Tasks

T = TypeVar("T")

_SWITCH_SECONDS = 1e-4
_FETCHED_AHEAD = 4  # pieces read before they are decoded


@dataclass(frozen=True)
class Streamed(Generic[T]):
    """A piece of a pass: blocks begun so far, bytes read for the piece, its rows, and what `look` returned for them."""

    blocks_begun: int
    read_bytes: int
    rows: Segment
    result: T


@dataclass(frozen=True)
class _Fetched:
    """A piece that has been read: blocks begun so far, its LOCATION, its bytes."""

    blocks_begun: int
    location: Array
    bytes: FileRange


Stream: TypeAlias = Generator[Streamed[T], None, None]


class Source(Protocol):
    """Where pieces come from."""

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array] | None]:
        """(Blocks begun, LOCATION) of each piece of a pass after the first `skipped`; None: wait for the next."""

    def fetch(self, location: Array) -> FileRange:
        """Read a piece, on any thread."""

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode it, on any thread."""


@dataclass
class RowEncoder:
    """Makes the segments that trainer and certificate use from the rows of a dataset.

    labels         labels of the classes, by code; if only one is listed, rows with any other label get code 1
    is_regression  rows have numbers to predict, and no classes
    n_folds, seed  a hash with this seed deals rows to so many folds
    has_weights    whether segments have weights; rows without one get 1
    maps           feature maps that are applied once, when rows are read; None: there are none
    part_rows      for a shard: the ids that its rows have in the whole dataset, which decide the folds, as runs (see
                   storage.rows.row_runs); None: the dataset is whole
    """

    labels: Sequence[float] = ()
    is_regression: bool = False
    n_folds: int = 1
    seed: int = 0
    has_weights: bool = False
    maps: FeatureMaps | None = None
    part_rows: Array | None = None

    @classmethod
    def of_tasks(
        cls, tasks: Tasks, has_weights: bool = False, maps: FeatureMaps | None = None, part_rows: Array | None = None
    ) -> "RowEncoder":
        """The encoder of a run's rows."""
        return cls(tasks.labels, tasks.is_regression, tasks.n_folds, tasks.seed, has_weights, maps, part_rows)

    def encode(self, piece: Piece) -> Segment:
        """The rows of a piece."""
        rows, n_rows = piece.rows, len(piece)
        weight = np.ones(n_rows) if rows.weight is None and self.has_weights else rows.weight
        encoded = Segment(
            row_id=np.arange(piece.first_row, piece.first_row + n_rows, dtype=ROW_ID),
            class_code=np.zeros(n_rows, CODE) if self.is_regression else self._class_codes(rows.label),
            fold=self._folds(piece),
            Qii=piece.Qii,
            indptr=rows.indptr.astype(OFFSET),
            indices=rows.indices,
            values=rows.values,
            target=rows.label.astype(TARGET) if self.is_regression else NO_COLUMN,
            weight=NO_COLUMN if weight is None else weight,
        )
        return encoded if self.maps is None else with_features(encoded, self.maps)

    def _class_codes(self, label: Array) -> Array:
        """Translate labels (n,) into class codes. DatasetCorrupt if `labels` has several, but not one of these."""
        labels = np.asarray(self.labels, float)
        by_value = np.argsort(labels)
        places = np.minimum(np.searchsorted(labels[by_value], label), len(labels) - 1)
        codes = by_value[places]
        is_known = labels[codes] == label
        if len(labels) > 1 and not is_known.all():
            # Kernels look a row's kind up in a table that has no line for it.
            raise DatasetCorrupt("a row has a label that its manifest does not list")
        return np.where(is_known, codes, len(labels)).astype(CODE)

    def _folds(self, piece: Piece) -> Array:
        """The fold (n,) of each row, from its group if rows have groups, else from its id."""
        if self.n_folds == 1:
            return np.zeros(len(piece), CODE)
        keys = piece.rows.group
        if keys is None:
            ids = np.arange(piece.first_row, piece.first_row + len(piece))
            keys = ids if self.part_rows is None else written_ids(self.part_rows, ids)
        return fold_of(keys, self.n_folds, self.seed).astype(CODE)


class Streamer:
    """Streams pieces. Threads beside the caller's decode them ahead, if there are any."""

    def __init__(self, encoder: RowEncoder, wait: Callable[[], object]) -> None:
        self._encoder = encoder
        self._wait = wait
        # Otherwise a thread that returns from a kernel would wait five milliseconds for the interpreter's lock.
        sys.setswitchinterval(_SWITCH_SECONDS)

    def stream(
        self, source: Source, seed: int, pass_: int, look: Callable[[Segment], T], threads: int, skipped: int = 0
    ) -> Stream[T]:
        """The pieces of a pass after the first `skipped`; calls `look` with the rows of each, in any order and thread.

        Close a stream that you do not read to its end: closing waits for its threads, which garbage collection must
        not do.
        """
        reads = (place and partial(_fetch, source, *place) for place in source.order(seed, pass_, skipped))
        first = list(islice(reads, 2))
        if len(first) == 1 and first[0] is not None:
            # One piece, and nothing to do ahead that a thread would be worth.
            yield self._look_at(source, first[0](), look)
            return
        reading, pool = ThreadPoolExecutor(1), ThreadPoolExecutor(max(threads, 1))
        try:
            tasks = (
                partial(self._look_at, source, fetched, look)
                for fetched in work_ahead(chain(first, reads), reading, _FETCHED_AHEAD, self._wait)
            )
            if threads < 1:
                yield from (task() for task in tasks)
            else:
                yield from work_ahead(tasks, pool, threads + 1, self._wait)
        finally:
            for executor in (reading, pool):
                executor.shutdown(cancel_futures=True)

    def _look_at(self, source: Source, fetched: _Fetched, look: Callable[[Segment], T]) -> Streamed[T]:
        rows = self._encoder.encode(source.decode(fetched.location, fetched.bytes))
        return Streamed(fetched.blocks_begun, int(fetched.location["bytes"]), rows, look(rows))


def _fetch(source: Source, blocks_begun: int, location: Array) -> _Fetched:
    return _Fetched(blocks_begun, location, source.fetch(location))


def work_ahead(
    tasks: Iterable[Callable[[], T] | None], pool: Executor, depth: int, wait: Callable[[], object]
) -> Iterator[T]:
    """The results of the tasks, in their order; up to `depth` tasks are begun before their results are asked for.

    None in place of a task says that the next task is not known yet: without results to yield, `wait` is called.
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
