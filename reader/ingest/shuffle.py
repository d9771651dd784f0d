"""Assigns rows to blocks at random, in one pass and bounded memory (Yu et al., KDD 2010, Algorithm 4).

Each row goes to one of a fixed number of buckets, drawn uniformly at random. A bucket collects rows in memory; when it
is full, it appends them to its block as a piece. So every block is a random sample, even of a file sorted by class.

Blocks and row ids depend only on the rows and the seed.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from streamsvm.reader.ingest.ingest_kernel import gather, scatter
from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.storage.blocks.block import BlockInfo, BlockWriter
from streamsvm.storage.blocks.dataset import Journal, block_path
from streamsvm.storage.rows.csr import GROUP, INDEX, INDPTR, LABEL, VALUE, WEIGHT, Array, Rows

# Large pieces cost the reader process fewer Python calls, so that other threads get more of a pass.
BUCKETS = 64
PIECE_WORDS = 256 << 10  # 1 MiB: 64 MiB for all buckets
_SPARE = 16  # full buckets that may wait for an encoder
_FIRST_WORDS = 4 << 10  # 16 KiB at first: clearing 1 MiB per bucket takes longer than importing a few thousand rows
FEWEST_WORDS = 64 << 10  # 256 KiB: in a small dataset pieces are smaller, so that there are more pieces
_WORD, _TWO_WORDS = np.dtype("<i4"), np.dtype("<i8")
_TYPES = {"label": LABEL, "weight": WEIGHT, "group": GROUP}


class Shuffler:
    """Distributes rows over the blocks of a staged dataset; `threads` encoder threads compress and write the pieces.

    dataset                 uid of the dataset, for the headers of blocks
    first_row, first_block  id of the first row, number of the first block; not 0 for rows that are added to a dataset
    features                numbers the features of the blocks
    buckets                 number of buckets; 1 keeps the rows in the order of the input
    """

    def __init__(
        self,
        directory: Path,
        dataset: str,
        seed: int,
        threads: int,
        first_row: int = 0,
        first_block: int = 0,
        features: Renumbering | None = None,
        buckets: int = BUCKETS,
    ) -> None:
        self._directory = directory
        self._dataset = dataset
        self._buckets = buckets
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        # Each bucket has a slot of the memory; a full bucket takes a free slot.
        self._memory = np.empty((BUCKETS + _SPARE, min(_FIRST_WORDS, PIECE_WORDS)), _WORD)
        self._slot = np.arange(BUCKETS)
        self._free = list(range(BUCKETS, BUCKETS + _SPARE))
        self._used = np.zeros(BUCKETS, np.int64)  # words in use in each bucket
        self._rows = np.zeros(BUCKETS, np.int64)
        self._writers: dict[int, tuple[int, BlockWriter]] = {}  # bucket -> number of its block, writer
        # Each encoder has one thread, so that the pieces of a block are written in order.
        self._encoders = [ThreadPoolExecutor(1) for _ in range(threads)]
        # Pieces that encoder threads compress and write: number of the block; slot of the buckets' memory that becomes
        # free then, None if the rows are in other memory; the entry in the block's index, known when it is written.
        self._pending: deque[tuple[int, int | None, Future[Array]]] = deque()
        self._next_row = first_row
        self._first_block = first_block
        self._columns: tuple[str, ...] = ()
        self.features = features or Renumbering()
        (directory / "blocks").mkdir()
        self._journal = Journal(directory)

    def add(self, rows: Rows) -> None:
        """Copy each row into a random bucket; write buckets that are full. All rows must have the same columns."""
        self._columns = columns_of(rows)
        bucket_of = self._rng.integers(0, self._buckets, len(rows))
        row = 0
        while True:
            start = row
            row = scatter(row, bucket_of, *_arrays(rows), self._slot, self._memory, self._used, self._rows)
            self._look_at(rows, start, row)
            if row == len(rows):
                break
            if self._memory.shape[1] < PIECE_WORDS:
                # Give each bucket the memory of a whole piece, before any of them is written.
                small, self._memory = self._memory, np.empty((BUCKETS + _SPARE, PIECE_WORDS), _WORD)
                self._memory[:, : small.shape[1]] = small
                continue
            bucket = int(bucket_of[row])
            self._flush(bucket)
            if _words(rows, row) > PIECE_WORDS:
                self._look_at(rows, row, row + 1)
                self._write_alone(bucket, rows, row)
                row += 1

    def _look_at(self, rows: Rows, start: int, end: int) -> None:
        """Count or list the features of the rows [start, end), before any of these rows is written."""
        indices = rows.indices[rows.indptr[start] : rows.indptr[end]]
        if self.features.is_settled:
            self.features.enter(indices)
        else:
            self.features.observe(indices, end - start)

    def finish(self) -> tuple[BlockInfo, ...]:
        """Write the rows that are still in buckets; return the blocks in order, complete but not yet durable."""
        if self._writers:
            for bucket in range(BUCKETS):
                self._flush(bucket)
        else:
            for number, (words, n_rows) in enumerate(self._merged()):
                self._write(number, words, n_rows, None)
        self._wait(0)
        for encoder in self._encoders:
            encoder.shutdown()
        self._journal.remove()
        return tuple(writer.finish() for _, writer in self._writers.values())

    def abandon(self) -> None:
        """Stop the encoders, after an error: the staged blocks will not be used."""
        for encoder in self._encoders:
            encoder.shutdown(cancel_futures=True)
        self._journal.remove()

    def _flush(self, bucket: int) -> None:
        """Pass the bucket's rows to its encoder as one piece, and give the bucket a free slot of memory."""
        if self._rows[bucket] == 0:
            return
        self._wait(_SPARE - 1)
        slot = int(self._slot[bucket])
        self._write(bucket, self._memory[slot, : self._used[bucket]], int(self._rows[bucket]), slot)
        self._slot[bucket] = self._free.pop()
        self._used[bucket] = self._rows[bucket] = 0

    def _write_alone(self, bucket: int, rows: Rows, row: int) -> None:
        """Write a row too long for a bucket as its own piece; wait, so that its memory is free before further rows."""
        words = np.empty((1, _words(rows, row)), _WORD)
        used, count = np.zeros(1, np.int64), np.zeros(1, np.int64)
        scatter(row, np.zeros(row + 1, np.int64), *_arrays(rows), np.zeros(1, np.int64), words, used, count)
        self._write(bucket, words[0], 1, None)
        self._wait(0)

    def _write(self, bucket: int, words: Array, n_rows: int, slot: int | None) -> None:
        if not self.features.is_settled:
            self.features.settle()
        if bucket not in self._writers:
            number = self._first_block + len(self._writers)
            path, increasing = block_path(self._directory, number), self.features.increasing
            self._writers[bucket] = number, BlockWriter(path, self._dataset, number, increasing)
        number, writer = self._writers[bucket]
        order = np.arange(n_rows)
        if self._buckets > 1:  # a bucket keeps the input's order
            order = np.random.default_rng((self._seed, self._next_row)).permutation(n_rows)
        entry = self._encoders[number % len(self._encoders)].submit(
            _append, writer, words, self._columns, order, self._next_row, self.features
        )
        self._pending.append((number, slot, entry))
        self._next_row += n_rows

    def _wait(self, most: int) -> None:
        """Wait until at most `most` pieces are pending. Announces written pieces, and raises an encoder's exception."""
        while self._pending and (len(self._pending) > most or self._pending[0][2].done()):
            block, slot, entry = self._pending.popleft()
            self._journal.announce(block, entry.result())
            if slot is not None:
                self._free.append(slot)

    def _merged(self) -> Iterator[tuple[Array, int]]:
        """Join buckets of a small dataset into pieces of FEWEST_WORDS or more; yield (words, number of rows)."""
        pieces: list[Array] = []
        n_rows = 0
        for bucket in np.flatnonzero(self._rows).tolist():
            pieces.append(self._memory[bucket, : self._used[bucket]])
            n_rows += int(self._rows[bucket])
            if sum(map(len, pieces)) >= min(FEWEST_WORDS, PIECE_WORDS):
                yield np.concatenate(pieces), n_rows
                pieces, n_rows = [], 0
        if pieces:
            yield np.concatenate(pieces), n_rows


def _words(rows: Rows, row: int) -> int:
    return 2 * len(columns_of(rows)) + 1 + 2 * int(rows.indptr[row + 1] - rows.indptr[row])


def _arrays(rows: Rows) -> tuple[Array, Array, Array, Array]:
    """Return the heads, indptr, indices and values of the rows for the kernels, which move the bits of numbers."""
    return head_of(rows), rows.indptr, rows.indices, rows.values.view(_WORD)


def _append(
    writer: BlockWriter, words: Array, names: tuple[str, ...], order: Array, first_row: int, features: Renumbering
) -> Array:
    n_rows = len(order)
    head = np.empty((n_rows, 2 * len(names)), _WORD)
    nnz = (len(words) - n_rows * (head.shape[1] + 1)) // 2
    indptr, indices, values = np.zeros(n_rows + 1, INDPTR), np.empty(nnz, INDEX), np.empty(nnz, VALUE)
    gather(words, order, head, indptr, indices, values.view(_WORD))
    features.apply(indices)
    rows = Rows(indptr=indptr, indices=indices, values=values, **columns_of_heads(head, names))
    return writer.append(rows, first_row)


def columns_of(rows: Rows) -> tuple[str, ...]:
    """Return the names of the rows' columns: label, then weight and group if the rows have them."""
    return tuple(name for name in _TYPES if getattr(rows, name) is not None)


def head_of(rows: Rows) -> Array:
    """Return the bits of the rows' columns (`columns_of`) as (n_rows, 2 * number of columns) int32."""
    columns = [getattr(rows, name).view(_TWO_WORDS) for name in columns_of(rows)]
    return np.stack(columns, axis=1).view(_WORD)


def columns_of_heads(head: Array, names: tuple[str, ...]) -> dict[str, Array]:
    """Return the columns, by name, from the result of `head_of`; `names` is the result of `columns_of`."""
    bits = head.view(_TWO_WORDS)
    return {name: np.ascontiguousarray(bits[:, place]).view(_TYPES[name]) for place, name in enumerate(names)}
