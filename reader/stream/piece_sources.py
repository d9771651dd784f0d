"""Sources of a pass's pieces: a dataset in random order, in blocks of block minimization, or still being imported.

The order of pieces is a pure function of the dataset, the seed and the pass, and so are the blocks.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice, pairwise
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from streamsvm.storage.blocks.block import LOCATION, Piece
from streamsvm.storage.blocks.dataset import ArrivingDataset, Dataset
from streamsvm.storage.errors import DatasetLost
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.files.direct import FileRange
from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.machine.thread_work import work_ahead
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import OPTIONAL_COLUMN, PLAIN_ROW, Segment, packed_bytes, row_bytes
from streamsvm.trainer.problem.row_encoder import RowEncoder

T = TypeVar("T")

_SWITCH_SECONDS = 1e-4
_FETCHED_AHEAD = 4  # pieces read before they are decoded


@dataclass(frozen=True)
class Streamed(Generic[T]):
    """A piece of a pass: blocks begun so far, bytes read for the piece, its rows, and the result of `look` for them."""

    blocks_begun: int
    read_bytes: int
    rows: Segment
    result: T


# A piece that has been read and not decoded: blocks begun so far in the pass, its LOCATION, its bytes.
_Fetched = tuple[int, Array, FileRange]
Stream: TypeAlias = Generator[Streamed[T], None, None]


class PieceSource(Protocol):
    """Orders, reads and decodes the pieces of a pass."""

    def order(self, seed: int, pass_: int) -> Iterator[tuple[int, Array] | None]:
        """Yield where each piece of a pass is, in the order of reading.

        A piece comes as (number of blocks begun so far, its place in the files, of dtype LOCATION). None means that the
        next piece has not been written yet.
        """

    def fetch(self, location: Array) -> FileRange:
        """Read the bytes of a piece. Any thread may call it."""

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode the bytes of a piece that `fetch` has read. Any thread may call it."""


class Streamer:
    """Streams the pieces of a source. wait: a function that sleeps until the source may have another piece."""

    def __init__(self, encoder: RowEncoder, wait: Callable[[], object]) -> None:
        self._encoder = encoder
        self._wait = wait
        self.health = DiskHealth(".")  # how late pieces come; reading takes no space
        # Otherwise a thread that returns from a kernel would wait five milliseconds for the interpreter's lock.
        sys.setswitchinterval(_SWITCH_SECONDS)

    def stream(
        self, source: PieceSource, seed: int, pass_: int, look: Callable[[Segment], T], threads: int, skipped: int = 0
    ) -> Stream[T]:
        """Yield a pass's pieces after the first `skipped`, with the result of `look` for the rows of each piece.

        `threads` threads decode pieces ahead and call `look`, in any order; 0: the caller's thread does. Close a stream
        that is not read to its end: closing waits for its threads, which garbage collection must not do.
        """
        places = islice(source.order(seed, pass_), skipped, None)
        reads = (place and partial(self._fetch, source, *place) for place in places)
        first = list(islice(reads, 2))
        if len(first) == 1 and first[0] is not None:
            # A single piece: there is no further piece that threads could decode ahead.
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

    def _fetch(self, source: PieceSource, blocks_begun: int, location: Array) -> _Fetched:
        decoded_bytes = packed_bytes(int(location["rows"]), int(location["nnz"]))
        return blocks_begun, location, self.health.timed(decoded_bytes, 1, lambda: source.fetch(location))

    def _look_at(self, source: PieceSource, fetched: _Fetched, look: Callable[[Segment], T]) -> Streamed[T]:
        blocks_begun, location, data = fetched
        rows = self._encoder.encode(source.decode(location, data))
        return Streamed(blocks_begun, int(location["bytes"]), rows, look(rows))


_STREAM = 0  # number of this module's stream of random numbers; `residents` draws another from the same seed
# A part of a piece: the piece's LOCATION, and a range of the bytes that the piece would have in the cache. Rows whose
# first byte is in [begin, end) belong to the part.
PART = np.dtype([*LOCATION.descr, ("begin", "<i8"), ("end", "<i8")])


def block_order(count: int, seed: int, pass_: int) -> Array:
    """Return the random order (count,) in which a pass reads `count` blocks."""
    return np.random.default_rng((seed, _STREAM, pass_, 0)).permutation(count)


def piece_order(n_pieces: int, seed: int, pass_: int, block: int) -> Array:
    """Return the random order (n_pieces,) in which a pass reads the pieces of a block.

    On disk, pieces follow the order of the input, so neighbouring pieces of a large block would be alike.
    """
    return np.random.default_rng((seed, _STREAM, pass_, block + 1)).permutation(n_pieces)


class Shuffled:
    """A `PieceSource` of a complete dataset: blocks in random order, and each block's pieces in random order."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # Locations are read once and kept, 50 bytes a piece: else each block of each pass would wait for the disk.
        self._pieces = cache(dataset.pieces)
        self.fetch, self.decode = dataset.fetch, dataset.decode

    def order(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        blocks = block_order(len(self._dataset.manifest.blocks), seed, pass_).tolist()
        for begun, block in enumerate(blocks, start=1):
            pieces = self._pieces(block)
            for location in pieces[piece_order(len(pieces), seed, pass_, block)]:
                yield begun, location


class Following:
    """A `PieceSource` of one pass over a dataset that is still being imported: it yields pieces as they are written.

    The first pieces wait until two different labels are known; the larger label becomes the encoder's positive label.
    """

    def __init__(self, arriving: ArrivingDataset, encoder: RowEncoder) -> None:
        self._arriving = arriving
        self._encoder = encoder
        self._labels: set[float] = set()
        self.fetch, self.decode = arriving.fetch, arriving.decode

    def order(self, _seed: int, _pass: int) -> Iterator[tuple[int, Array] | None]:
        blocks: set[int] = set()
        held: list[Array] = []
        while not self._arriving.is_complete:
            held += self._new_pieces()
            if len(self._labels) > 1 or self._arriving.is_complete:
                self._encoder.labels = (max(self._labels, default=0.0),)
                for location in held:
                    blocks.add(int(location["block"]))
                    yield len(blocks), location
                held = []
            if not self._arriving.is_complete:
                yield None

    def _new_pieces(self) -> list[Array]:
        pieces = self._arriving.new_pieces()
        if not pieces and self._arriving.has_failed:
            raise DatasetLost("the dataset was given up while it was being read in")
        for location in pieces:
            if len(self._labels) < 2:
                self._labels.update(self._arriving.piece(location).rows.label.tolist())
        return pieces


class Partitioned:
    """A `PieceSource` for block minimization: all rows in `blocks` blocks of equal size, identical in every pass.

    permutes  each pass visits the blocks in a random order of its own
    maps      feature maps that are applied before rows enter the cache; the rows' sizes there depend on them
    """

    def __init__(self, dataset: Dataset, blocks: int, permutes: bool, maps: FeatureMaps, seed: int) -> None:
        self._dataset = dataset
        self.fetch = dataset.fetch
        self._permutes = permutes
        self._maps = maps
        pieces = np.concatenate([_pieces(dataset, number, seed) for number in range(len(dataset.manifest.blocks))])
        rows: Array = pieces["rows"].astype(np.int64)
        # A map that is applied when rows are read adds the same number of values to every row.
        extra = int(maps.most_values(np.zeros(1, np.int64))[0])
        self._per_row = PLAIN_ROW + OPTIONAL_COLUMN * (dataset.manifest.weights is not None)
        sizes: Array = packed_bytes(rows, pieces["nnz"] + extra * rows, self._per_row)
        self._blocks = partition(pieces, sizes, blocks)

    def order(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        """Yield (number of blocks begun so far, place of dtype PART) for each part."""
        count = len(self._blocks)
        blocks = block_order(count, seed, pass_) if self._permutes else np.arange(count)
        for begun, block in enumerate(blocks.tolist(), start=1):
            for part in self._blocks[block]:
                yield begun, part

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode the rows of a PART from the bytes of its piece."""
        piece = self._dataset.decode(location, fetched)
        sizes = row_bytes(self._maps.most_values(np.diff(piece.rows.indptr)), self._per_row)
        return rows_of(piece, sizes, int(location["begin"]), int(location["end"]))


def partition(pieces: Array, sizes: Array, count: int) -> list[Array]:
    """Cut pieces, LOCATION (n,) with packed `sizes` (n,) in bytes, in order into `count` equal blocks: PART (k,) each.

    A row that crosses the border between two blocks belongs to the first.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    begins = ends - sizes
    blocks = []
    for begin, end in pairwise(int(ends[-1]) * block // count for block in range(count + 1)):
        which = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(begins, end, "left"))
        parts = np.empty(len(ends[which]), PART)
        parts[list(LOCATION.names or ())] = pieces[which]
        parts["begin"] = np.maximum(begin - begins[which], 0)
        parts["end"] = np.minimum(end, ends[which]) - begins[which]
        blocks.append(parts)
    return blocks


def rows_of(piece: Piece, row_bytes: Array, begin: int, end: int) -> Piece:
    """Return the rows of a piece whose first byte is in [begin, end); row_bytes (n,): packed sizes of all its rows."""
    begins = np.cumsum(row_bytes) - row_bytes
    start, stop = np.searchsorted(begins, (begin, end)).tolist()
    return Piece(piece.rows.part(start, stop), piece.Qii[start:stop], piece.first_row + start)


def _pieces(dataset: Dataset, number: int, seed: int) -> Array:
    """Return the LOCATIONs of a block on disk, in random order, or in the input's if the dataset is not shuffled."""
    pieces = dataset.pieces(number)
    if dataset.manifest.shuffle == "no":
        return pieces
    return pieces[piece_order(len(pieces), seed, 0, number)]
