"""Block minimization: all rows in a number of blocks, which come one after the other in every pass.

The partition is a pure function of the dataset, the number of blocks and the seed, the same in every pass.
"""

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from streamsvm.reader.stream.order import block_order, piece_order
from streamsvm.storage.blocks.block import LOCATION, Piece
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.files.direct import FileRange
from streamsvm.storage.rows.csr import Array, Rows
from streamsvm.storage.rows.segment import OPTIONAL_COLUMN, PLAIN_ROW, packed_bytes, row_bytes

# Some rows of a piece: those whose first byte, as the cache would hold them, is at `begin` or behind and before `end`.
PART = np.dtype([*LOCATION.descr, ("begin", "<i8"), ("end", "<i8")])


def partition(pieces: Array, sizes: Array, count: int) -> list[Array]:
    """The pieces, LOCATION (n,) of packed sizes (n,) in bytes, cut in order into `count` equal blocks: PART (k,) each.

    A row that crosses the border between two blocks belongs to the first.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    begins = ends - sizes
    parts = []
    for begin, end in pairwise(int(ends[-1]) * block // count for block in range(count + 1)):
        which = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(begins, end, "left"))
        found = np.empty(len(ends[which]), PART)
        for name in LOCATION.names or ():
            found[name] = pieces[which][name]
        found["begin"] = np.maximum(begin - begins[which], 0)
        found["end"] = np.minimum(end, ends[which]) - begins[which]
        parts.append(found)
    return parts


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


class Partitioned:
    """A `Source` block by block. `maps` are applied to every row before it comes into the cache."""

    def __init__(self, dataset: Dataset, blocks: int, permutes: bool, maps: FeatureMaps, seed: int) -> None:
        self._dataset = dataset
        self.fetch = dataset.fetch
        self._permutes = permutes
        self._maps = maps
        pieces = np.concatenate([_pieces(dataset, number, seed) for number in range(len(dataset.manifest.blocks))])
        rows: Array = pieces["rows"].astype(np.int64)
        # No map that is applied early makes another number of values of as many.
        extra = int(maps.made(np.zeros(1, np.int64))[0])
        self._per_row = PLAIN_ROW + OPTIONAL_COLUMN * (dataset.manifest.weights is not None)
        sizes: Array = packed_bytes(rows, pieces["nnz"] + extra * rows, self._per_row)
        self._blocks = partition(pieces, sizes, blocks)

    def order(self, seed: int, pass_: int, skipped: int = 0) -> Iterator[tuple[int, Array]]:
        """(Blocks begun, PART) of each part of a pass but the first."""
        return islice(self._in_order(seed, pass_), skipped, None)

    def decode(self, location: Array, fetched: FileRange) -> Piece:
        """Check and decode a PART."""
        piece = self._dataset.decode(location, fetched)
        sizes = row_bytes(self._maps.made(np.diff(piece.rows.indptr)), self._per_row)
        return rows_of(piece, sizes, int(location["begin"]), int(location["end"]))

    def _in_order(self, seed: int, pass_: int) -> Iterator[tuple[int, Array]]:
        count = len(self._blocks)
        blocks = block_order(count, seed, pass_) if self._permutes else np.arange(count)
        for begun, block in enumerate(blocks.tolist(), start=1):
            for part in self._blocks[block]:
                yield begun, part


def _pieces(dataset: Dataset, number: int, seed: int) -> Array:
    """LOCATIONs of a block on disk: its pieces follow the input's order, and here as asked for only."""
    pieces = dataset.pieces(number)
    if dataset.manifest.shuffle == "no":
        return pieces
    return pieces[piece_order(len(pieces), seed, 0, number)]
