"""One pass over a dataset: its pieces in the pass's order, decoded into rows ready for training.

Decoding, and whatever else is to be done with a piece on its own, runs ahead on other cores.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Generic, Protocol, TypeVar

import numpy as np

from reader.ahead import work_ahead, work_at_once
from reader.order import block_order, piece_order
from storage.block import Piece
from storage.csr import INDEX, VALUE, Array
from storage.dataset import Dataset
from storage.segment import OFFSET, ROW_ID, TARGET, Segment

T = TypeVar("T")

_SWITCH_SECONDS = 1e-4
_FETCHED_AHEAD = 8  # at least so many pieces the kernel has been asked for before they are read, at most twice


@dataclass(frozen=True)
class Streamed(Generic[T]):
    """A piece of a pass: blocks begun so far, bytes read for it, its rows, and what was made of them ahead."""

    blocks_begun: int
    read_bytes: int
    rows: Segment
    found: T


class Source(Protocol):
    """Where pieces come from."""

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array] | None]:
        """(Blocks begun, LOCATION) of each piece of a pass but the first; None while the next is not known yet."""

    def piece(self, location: Array) -> Piece:
        """Read, check and decode a piece."""


class Shuffled:
    """A complete dataset: blocks in random order, pieces in random order inside each."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # Read once: to wait for the disk at each block of each pass costs more than 50 bytes a piece in memory.
        self._pieces = cache(dataset.pieces)
        self.piece = dataset.piece

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array]]:
        return fetched_ahead(self._dataset, islice(self._shuffled(seed, pass_), skipped, None))

    def _shuffled(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        blocks = block_order(len(self._dataset.manifest.blocks), seed, pass_).tolist()
        for begun, block in enumerate(blocks, start=1):
            pieces = self._pieces(block)
            for location in pieces[piece_order(len(pieces), seed, pass_, block)]:
                yield begun, location


def fetched_ahead(dataset: Dataset, places: Iterable[tuple[int, Array]]) -> Iterator[tuple[int, Array]]:
    """The same places; the kernel is asked for the next of them while one is used."""
    rest = iter(places)
    fetched: list[tuple[int, Array]] = []
    while coming := list(islice(rest, _FETCHED_AHEAD)):
        dataset.will_need([location for _, location in coming])
        yield from fetched
        fetched = coming
    yield from fetched


@dataclass
class Examples:
    """How a dataset's rows become a training problem's.

    positive    label of the rows with y = +1, all others have -1; None: y is the label itself
    bias        value of the constant feature, or None; it is the last: feature width - 1
    """

    positive: float | None
    bias: float | None
    width: int

    def of(self, piece: Piece) -> Segment:
        """The rows of a piece."""
        rows = piece.rows
        examples = Segment(
            row_id=np.arange(piece.first_row, piece.first_row + len(piece), dtype=ROW_ID),
            y=self._targets(rows.label),
            Qii=piece.Qii,
            indptr=rows.indptr.astype(OFFSET),
            indices=rows.indices,
            values=rows.values,
        )
        return examples if self.bias is None else _with_constant(examples, self.width - 1, float(VALUE.type(self.bias)))

    def _targets(self, label: Array) -> Array:
        return (label if self.positive is None else np.where(label == self.positive, 1, -1)).astype(TARGET)


def _with_constant(examples: Segment, column: int, value: float) -> Segment:
    """The rows with one more feature at their end, the same for all."""
    n_rows = len(examples)
    ends = examples.indptr[1:]
    return Segment(
        row_id=examples.row_id,
        y=examples.y,
        Qii=examples.Qii + value * value,
        indptr=examples.indptr + np.arange(n_rows + 1, dtype=OFFSET),
        indices=np.insert(examples.indices, ends, INDEX.type(column)),
        values=np.insert(examples.values, ends, VALUE.type(value)),
    )


class Streamer:
    """Streams pieces; with threads beside the caller's, what is to be done with a piece runs ahead on them."""

    def __init__(self, examples: Examples, wait: Callable[[], object]) -> None:
        self._examples = examples
        self._wait = wait
        # A thread that comes back from a kernel would else wait five milliseconds for its turn.
        sys.setswitchinterval(_SWITCH_SECONDS)

    def stream(
        self, source: Source, seed: int, pass_: int, look: Callable[[Segment], T], threads: int, skipped: int = 0
    ) -> Iterator[Streamed[T]]:
        """The pieces of the pass but the first; `look` is called with the rows of each, in any order, on any thread."""
        places = source.order(seed, pass_, skipped)
        tasks = (place and partial(self._read, source, *place, look) for place in places)
        if threads < 1:
            yield from work_at_once(tasks, self._wait)
            return
        pool = ThreadPoolExecutor(threads)
        try:
            yield from work_ahead(tasks, pool, threads + 1, self._wait)
        finally:
            pool.shutdown(cancel_futures=True)

    def _read(self, source: Source, begun: int, location: Array, look: Callable[[Segment], T]) -> Streamed[T]:
        rows = self._examples.of(source.piece(location))
        return Streamed(begun, int(location["bytes"]), rows, look(rows))
