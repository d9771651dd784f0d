"""Random assignment of rows to blocks in one pass and bounded memory (Yu et al., KDD 2010, Algorithm 4).

Every row goes to one of a fixed number of buckets, drawn uniformly; a bucket collects rows in memory and appends them
to its block as a piece whenever it is full. A file sorted by class does no harm: every block is a random sample.

What is written where, and with which row ids, is a function of the rows and the seed alone.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamsvm.reader.ingest.numbering.renumber import Renumbering
from streamsvm.reader.ingest.shuffling.row_heads import head_of, heads_apart, kept_columns
from streamsvm.reader.ingest.shuffling.shuffle_kernel import gather, scatter
from streamsvm.storage.blocks.arriving import Journal
from streamsvm.storage.blocks.block import BlockInfo, BlockWriter
from streamsvm.storage.blocks.dataset import block_path
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array, Rows

# Large pieces cost the reader less in Python, and leave more of a pass to other threads.
BUCKETS = 64
PIECE_WORDS = 256 << 10  # 1 MiB: 64 MiB for all buckets
_SPARE = 16  # full buckets that may wait for an encoder
FEWEST_WORDS = 64 << 10  # 256 KiB: a small dataset has smaller pieces rather than few
_WORD = np.dtype("<i4")


class _Written(NamedTuple):
    """A piece given to an encoder: its block, the slot it leaves, its index entry when it is written."""

    block: int
    slot: int | None
    entry: Future[Array]


class Shuffler:
    """Distributes rows over the blocks of a dataset being staged. `threads` others encode and write them.

    first_row, first_block, features: where the numbers of rows and blocks begin and how features are numbered, for rows
    that are added to a dataset. buckets: 1 keeps the rows in the order of the input.
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
        # A bucket has a slot of the memory; when it is full it takes a free one.
        self._memory = np.empty((BUCKETS + _SPARE, PIECE_WORDS), _WORD)
        self._slot = np.arange(BUCKETS)
        self._free = list(range(BUCKETS, BUCKETS + _SPARE))
        self._used = np.zeros(BUCKETS, np.int64)  # words
        self._rows = np.zeros(BUCKETS, np.int64)
        self._writers: dict[int, tuple[int, BlockWriter]] = {}  # by bucket: number of the block, its writer
        # One thread each: the pieces of a block are written in order.
        self._encoders = [ThreadPoolExecutor(1) for _ in range(threads)]
        self._pending: deque[_Written] = deque()
        self._next_row = first_row
        self._first_block = first_block
        self._kept: tuple[str, ...] = ()
        self.features = features or Renumbering()
        (directory / "blocks").mkdir()
        self._journal = Journal(directory)

    def add(self, rows: Rows) -> None:
        """Draw a bucket for every row. All rows have the same columns."""
        self._kept = kept_columns(rows)
        bucket_of = self._rng.integers(0, self._buckets, len(rows))
        row = 0
        while True:
            start = row
            row = scatter(row, bucket_of, *_columns(rows), self._slot, self._memory, self._used, self._rows)
            self._look_at(rows, start, row)
            if row == len(rows):
                break
            bucket = int(bucket_of[row])
            self._flush(bucket)
            if _words(rows, row) > PIECE_WORDS:
                self._look_at(rows, row, row + 1)
                self._write_alone(bucket, rows, row)
                row += 1

    def _look_at(self, rows: Rows, start: int, end: int) -> None:
        """Before any of these rows is written: their features have to have numbers then."""
        indices = rows.indices[rows.indptr[start] : rows.indptr[end]]
        if self.features.is_settled:
            self.features.enter(indices)
        else:
            self.features.observe(indices, end - start)

    def finish(self) -> tuple[BlockInfo, ...]:
        """Write what is left; the blocks in order, complete but not yet durable."""
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
        """Stop encoding; what is staged is of no use."""
        for encoder in self._encoders:
            encoder.shutdown(cancel_futures=True)
        self._journal.remove()

    def _flush(self, bucket: int) -> None:
        """Give the bucket's rows to its encoder."""
        if self._rows[bucket] == 0:
            return
        self._wait(_SPARE - 1)
        slot = int(self._slot[bucket])
        self._write(bucket, self._memory[slot, : self._used[bucket]], int(self._rows[bucket]), slot)
        self._slot[bucket] = self._free.pop()
        self._used[bucket] = self._rows[bucket] = 0

    def _write_alone(self, bucket: int, rows: Rows, row: int) -> None:
        """A row that is too long for a bucket; its memory is given back before the next is read."""
        words = np.empty((1, _words(rows, row)), _WORD)
        used, count = np.zeros(1, np.int64), np.zeros(1, np.int64)
        scatter(row, np.zeros(row + 1, np.int64), *_columns(rows), np.zeros(1, np.int64), words, used, count)
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
        entry = self._encoders[number % len(self._encoders)].submit(
            _append, writer, words, self._kept, self._order(n_rows), self._next_row, self.features
        )
        self._pending.append(_Written(number, slot, entry))
        self._next_row += n_rows

    def _order(self, n_rows: int) -> Array:
        """Of the rows in the next piece: a bucket has them in the input's order, which may be by class."""
        if self._buckets == 1:
            return np.arange(n_rows)
        return np.random.default_rng((self._seed, self._next_row)).permutation(n_rows)

    def _wait(self, most: int) -> None:
        """Hold the parser back when the encoders are behind; announce what is written, raise what went wrong."""
        while self._pending and (len(self._pending) > most or self._pending[0].entry.done()):
            written = self._pending.popleft()
            self._journal.announce(written.block, written.entry.result())
            if written.slot is not None:
                self._free.append(written.slot)

    def _merged(self) -> Iterator[tuple[Array, int]]:
        """A small dataset: buckets put together until each is worth a block of a piece; (words, rows) of each."""
        parts: list[Array] = []
        n_rows = 0
        for bucket in np.flatnonzero(self._rows).tolist():
            parts.append(self._memory[bucket, : self._used[bucket]])
            n_rows += int(self._rows[bucket])
            if sum(map(len, parts)) >= min(FEWEST_WORDS, PIECE_WORDS):
                yield np.concatenate(parts), n_rows
                parts, n_rows = [], 0
        if parts:
            yield np.concatenate(parts), n_rows


def _words(rows: Rows, row: int) -> int:
    return 2 * len(kept_columns(rows)) + 1 + 2 * int(rows.indptr[row + 1] - rows.indptr[row])


def _columns(rows: Rows) -> tuple[Array, Array, Array, Array]:
    """As the kernels take them: the bits of numbers, not their values, are moved."""
    return head_of(rows), rows.indptr, rows.indices, rows.values.view(_WORD)


def _append(
    writer: BlockWriter, words: Array, kept: tuple[str, ...], order: Array, first_row: int, features: Renumbering
) -> Array:
    n_rows = len(order)
    head = np.empty((n_rows, 2 * len(kept)), _WORD)
    nnz = (len(words) - n_rows * (head.shape[1] + 1)) // 2
    indptr, indices, values = np.zeros(n_rows + 1, INDPTR), np.empty(nnz, INDEX), np.empty(nnz, VALUE)
    gather(words, order, head, indptr, indices, values.view(_WORD))
    features.apply(indices)
    rows = Rows(indptr=indptr, indices=indices, values=values, **heads_apart(head, kept))
    return writer.append(rows, first_row)
