"""Where the pieces of a pass come from, and in which order: a dataset shuffled, in large blocks, or still arriving.

Orders and blocks are pure functions of the dataset, the seed and the pass.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise

import numpy as np

from streamsvm.reader.stream.pieces import RowEncoder
from streamsvm.storage.blocks.arriving import ArrivingDataset
from streamsvm.storage.blocks.block import LOCATION, Piece
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import DatasetLost
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.files.direct import FileRange
from streamsvm.storage.rows.csr import Array, Rows
from streamsvm.storage.rows.segment import OPTIONAL_COLUMN, PLAIN_ROW, packed_bytes, row_bytes

_STREAM = 0  # of random numbers, apart from those that `residents` draws from the same seed
# A LOCATION of which only some rows belong to a block: those whose first byte, counted in the piece as the cache would
# hold it, is in [begin, end).
PART = np.dtype([*LOCATION.descr, ("begin", "<i8"), ("end", "<i8")])


def block_order(count: int, seed: int, pass_: int) -> Array:
    """The order (count,) in which a pass reads the blocks."""
    return np.random.default_rng((seed, _STREAM, pass_, 0)).permutation(count)


def piece_order(n_pieces: int, seed: int, pass_: int, block: int) -> Array:
    """The order (n_pieces,) in which a pass reads the pieces of a block.

    On disk they follow the input's order: in a large block, neighbours would be alike.
    """
    return np.random.default_rng((seed, _STREAM, pass_, block + 1)).permutation(n_pieces)


class Shuffled:
    """A `Source` of a complete dataset: blocks in random order, the pieces of each block in random order."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # Read once: waiting for the disk at each block of each pass costs more than 50 bytes a piece in memory.
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


class Following:
    """A `Source` of one pass over a dataset that is still being read in: its pieces as they are written.

    The first pieces are held back until two labels are known. The larger one becomes the encoder's positive label.
    """

    def __init__(self, arriving: ArrivingDataset, encoder: RowEncoder) -> None:
        self._arriving = arriving
        self._encoder = encoder
        self._labels: set[float] = set()
        self.fetch, self.decode = arriving.fetch, arriving.decode

    def order(self, _seed: int, _pass: int, _skipped: int = 0) -> Iterator[tuple[int, Array] | None]:
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
    """A `Source` for block minimization: all rows in `blocks` blocks of equal size, the same ones in every pass.

    permutes  whether passes visit the blocks in different orders
    maps      feature maps that are applied to every row before it comes into the cache: they decide its size
    """

    def __init__(self, dataset: Dataset, blocks: int, permutes: bool, maps: FeatureMaps, seed: int) -> None:
        self._dataset = dataset
        self.fetch = dataset.fetch
        self._permutes = permutes
        self._maps = maps
        pieces = np.concatenate([_pieces(dataset, number, seed) for number in range(len(dataset.manifest.blocks))])
        rows: Array = pieces["rows"].astype(np.int64)
        # A map that is applied early makes the same number of additional values of every row.
        extra = int(maps.most_values(np.zeros(1, np.int64))[0])
        self._per_row = PLAIN_ROW + OPTIONAL_COLUMN * (dataset.manifest.weights is not None)
        sizes: Array = packed_bytes(rows, pieces["nnz"] + extra * rows, self._per_row)
        self._blocks = partition(pieces, sizes, blocks)

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array]]:
        """(Blocks begun, PART) of each part of a pass after the first `skipped`."""
        return islice(self._in_order(seed, pass_), skipped, None)

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode a PART."""
        piece = self._dataset.decode(location, fetched)
        sizes = row_bytes(self._maps.most_values(np.diff(piece.rows.indptr)), self._per_row)
        return rows_of(piece, sizes, int(location["begin"]), int(location["end"]))

    def _in_order(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        count = len(self._blocks)
        blocks = block_order(count, seed, pass_) if self._permutes else np.arange(count)
        for begun, block in enumerate(blocks.tolist(), start=1):
            for part in self._blocks[block]:
                yield begun, part


def partition(pieces: Array, sizes: Array, count: int) -> list[Array]:
    """Cut the pieces, LOCATION (n,) of packed sizes (n,) in bytes, in order into `count` equal blocks: PART (k,) each.

    A row that crosses the border between two blocks belongs to the first.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    begins = ends - sizes
    blocks = []
    for begin, end in pairwise(int(ends[-1]) * block // count for block in range(count + 1)):
        which = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(begins, end, "left"))
        parts = np.empty(len(ends[which]), PART)
        for name in LOCATION.names or ():
            parts[name] = pieces[which][name]
        parts["begin"] = np.maximum(begin - begins[which], 0)
        parts["end"] = np.minimum(end, ends[which]) - begins[which]
        blocks.append(parts)
    return blocks


def rows_of(piece: Piece, row_bytes: Array, begin: int, end: int) -> Piece:
    """The rows of a piece that belong to the PART from `begin` to `end`; `row_bytes` (n,) are their packed sizes."""
    begins = np.cumsum(row_bytes) - row_bytes
    start, stop = np.searchsorted(begins, (begin, end)).tolist()
    rows = piece.rows
    values = slice(rows.indptr[start], rows.indptr[stop])
    indptr = rows.indptr[start : stop + 1] - rows.indptr[start]
    weight, group = (None if column is None else column[start:stop] for column in (rows.weight, rows.group))
    chosen = Rows(rows.label[start:stop], indptr, rows.indices[values], rows.values[values], weight, group)
    return Piece(chosen, piece.Qii[start:stop], piece.first_row + start)


def _pieces(dataset: Dataset, number: int, seed: int) -> Array:
    """LOCATIONs of a block on disk, in random order unless the dataset asks to keep the input's."""
    pieces = dataset.pieces(number)
    if dataset.manifest.shuffle == "no":
        return pieces
    return pieces[piece_order(len(pieces), seed, 0, number)]
