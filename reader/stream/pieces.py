"""One pass over a dataset: its pieces in the pass's order, decoded into rows ready for training.

A thread reads ahead. Decoding, and whatever else is to be done with a piece on its own, runs ahead on other cores.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from streamsvm.reader.certificate.folds import LeftOut, fold_of
from streamsvm.reader.stream.ahead import work_ahead
from streamsvm.reader.stream.order import block_order, piece_order
from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.visits import with_features
from streamsvm.storage.files.direct import FileRange
from streamsvm.storage.rows.csr import Array, Rows
from streamsvm.storage.rows.row_runs import written_ids
from streamsvm.storage.rows.segment import OFFSET, ROW_ID, TARGET, Segment
from streamsvm.trainer.problem.classes import Classes
from streamsvm.trainer.problem.lanes import Group

T = TypeVar("T")

_SWITCH_SECONDS = 1e-4
_FETCHED_AHEAD = 4  # pieces read before they are decoded


@dataclass(frozen=True)
class Streamed(Generic[T]):
    """A piece of a pass: blocks begun so far, bytes read for it, its rows, and what was made of them ahead."""

    blocks_begun: int
    read_bytes: int
    rows: Segment
    found: T


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
        """(Blocks begun, LOCATION) of each piece of a pass but the first; None while the next is not known yet."""

    def fetch(self, location: Array) -> FileRange:
        """Read a piece, on any thread."""

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode it, on any thread."""


class Shuffled:
    """A complete dataset: blocks in random order, pieces in random order inside each."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # Read once: to wait for the disk at each block of each pass costs more than 50 bytes a piece in memory.
        self._pieces = cache(dataset.pieces)
        self.fetch, self.decode = dataset.fetch, dataset.decode

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array]]:
        return islice(self._shuffled(seed, pass_), skipped, None)

    def _shuffled(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        blocks = block_order(len(self._dataset.manifest.blocks), seed, pass_).tolist()
        for begun, block in enumerate(blocks, start=1):
            pieces = self._pieces(block)
            for location in pieces[piece_order(len(pieces), seed, pass_, block)]:
                yield begun, location


@dataclass
class Examples:
    """How a dataset's rows become a training problem's.

    positive    label of the rows with y = +1, all others have -1; where rows have weights, +weight and -weight. None: y
                is the label itself
    maps        that are applied once, when rows are read; None: there are none
    left_out    rows that are to have no part in training: y is 0, or nan if it would be the label; or the weight is 0,
                where y is the place of a class; None: there are none
    group       lanes: y is the kind of a row, see trainer.problem.lanes, or the place of its class
    weight      (n_rows,): weights of rows go there, by id, where y does not tell them; or (0,)
    part_rows   the dataset's rows are a part of others, by whose ids folds are dealt out: runs of these ids, see
                storage.rows.row_runs; None: they are all there are
    """

    positive: float | None
    maps: FeatureMaps | None = None
    left_out: LeftOut | None = field(default=None, kw_only=True)
    group: Group | Classes | None = field(default=None, kw_only=True)
    weight: Array = field(default_factory=lambda: np.empty(0), kw_only=True)
    part_rows: Array | None = field(default=None, kw_only=True)

    def of(self, piece: Piece) -> Segment:
        """The rows of a piece."""
        rows = piece.rows
        target = self._targets(rows)
        if len(self.weight):
            self.weight[piece.first_row : piece.first_row + len(piece)] = self._weights(piece)
        examples = Segment(
            row_id=np.arange(piece.first_row, piece.first_row + len(piece), dtype=ROW_ID),
            y=self._without(piece, target) if self.group is None else self._kinds(piece, self.group),
            Qii=piece.Qii,
            indptr=rows.indptr.astype(OFFSET),
            indices=rows.indices,
            values=rows.values,
            target=target if self.left_out and self.group is None else None,
            weight=rows.weight,
        )
        return examples if self.maps is None else with_features(examples, self.maps)

    def _kinds(self, piece: Piece, group: Group | Classes) -> Array:
        rows = piece.rows
        labels = np.array(group.labels)
        by_value = np.argsort(labels)
        places = by_value[np.searchsorted(labels[by_value], rows.label)]
        folds = fold_of(self._keys(piece), group.n_folds, group.seed) if group.n_folds > 1 else 0
        return (places * group.n_folds + folds).astype(TARGET)

    def _weights(self, piece: Piece) -> Array:
        given = piece.rows.weight
        weights = np.ones(len(piece)) if given is None else given
        return weights if self.left_out is None else np.where(self.left_out.holds(self._keys(piece)), 0.0, weights)

    def _without(self, piece: Piece, y: Array) -> Array:
        if len(self.weight):
            return np.where(self.weight[piece.first_row : piece.first_row + len(piece)] > 0, y, TARGET.type(np.nan))
        if self.left_out is None:
            return y
        nothing = TARGET.type(np.nan if self.positive is None else 0)
        return np.where(self.left_out.holds(self._keys(piece)), nothing, y)

    def _keys(self, piece: Piece) -> Array:
        """By which rows are dealt out to folds: their groups where they have one, or their ids."""
        if piece.rows.group is not None:
            return piece.rows.group
        ids = np.arange(piece.first_row, piece.first_row + len(piece))
        return ids if self.part_rows is None else written_ids(self.part_rows, ids)

    def _targets(self, rows: Rows) -> Array:
        if self.positive is None:
            return rows.label.astype(TARGET)
        sign = np.where(rows.label == self.positive, 1, -1)
        return (sign if rows.weight is None else sign * rows.weight).astype(TARGET)


class Streamer:
    """Streams pieces; with threads beside the caller's, what is to be done with a piece runs ahead on them."""

    def __init__(self, examples: Examples, wait: Callable[[], object]) -> None:
        self._examples = examples
        self._wait = wait
        # A thread that comes back from a kernel would else wait five milliseconds for its turn.
        sys.setswitchinterval(_SWITCH_SECONDS)

    def stream(
        self, source: Source, seed: int, pass_: int, look: Callable[[Segment], T], threads: int, skipped: int = 0
    ) -> Stream[T]:
        """The pieces of the pass but the first; `look` is called with the rows of each, in any order, on any thread.

        One that is not read to its end has to be closed: it waits for its threads, which must not happen just when
        garbage is collected.
        """
        reads = (place and partial(_fetch, source, *place) for place in source.order(seed, pass_, skipped))
        reading, pool = ThreadPoolExecutor(1), ThreadPoolExecutor(max(threads, 1))
        try:
            tasks = (
                partial(self._look_at, source, fetched, look)
                for fetched in work_ahead(reads, reading, _FETCHED_AHEAD, self._wait)
            )
            if threads < 1:
                yield from (task() for task in tasks)
            else:
                yield from work_ahead(tasks, pool, threads + 1, self._wait)
        finally:
            for executor in (reading, pool):
                executor.shutdown(cancel_futures=True)

    def _look_at(self, source: Source, fetched: _Fetched, look: Callable[[Segment], T]) -> Streamed[T]:
        rows = self._examples.of(source.decode(fetched.location, fetched.bytes))
        return Streamed(fetched.blocks_begun, int(fetched.location["bytes"]), rows, look(rows))


def _fetch(source: Source, blocks_begun: int, location: Array) -> _Fetched:
    return _Fetched(blocks_begun, location, source.fetch(location))
