"""Random assignment of rows to blocks in one pass and bounded memory (Yu et al., KDD 2010, Algorithm 4).

Every row goes to one of a fixed number of buckets, drawn uniformly; a bucket collects rows in memory and appends them
to its block as a piece whenever it has enough. A file sorted by class does no harm: every block is a random sample.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from storage.arriving import Journal
from storage.block import BlockInfo, BlockWriter
from storage.csr import INDEX, INDPTR, VALUE, Array, Rows, copy_rows
from storage.dataset import block_path
from storage.segment import packed_bytes

BUCKETS = 256
PIECE_BYTES = 256 << 10  # decoded: 64 MiB for all buckets when full
_MOST_PENDING = 64  # pieces waiting for the encoder


@dataclass
class _Bucket:
    parts: list[Rows] = field(default_factory=list)
    bytes: int = 0
    writer: BlockWriter | None = None

    def take(self) -> Rows:
        rows, self.parts, self.bytes = concatenate(self.parts), [], 0
        return rows


class Shuffler:
    """Distributes rows over the blocks of a dataset being staged. Encoding and writing run on another core."""

    def __init__(self, directory: Path, dataset: str, seed: int) -> None:
        self._directory = directory
        self._dataset = dataset
        self._rng = np.random.default_rng(seed)
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        self._encoder = ThreadPoolExecutor(1)
        self._pending: deque[tuple[int, Future[Array]]] = deque()  # number of the block, entry of its index
        self._next_row = 0
        (directory / "blocks").mkdir()
        self._journal = Journal(directory)

    def add(self, rows: Rows) -> None:
        """Draw a bucket for every row."""
        bucket_of = self._rng.integers(0, BUCKETS, len(rows), dtype=np.uint8)
        order = np.argsort(bucket_of, kind="stable")
        shuffled = pick(rows, order)
        ends = np.cumsum(np.bincount(bucket_of, minlength=BUCKETS)).tolist()
        for number, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if stop > start:
                self._add_to_bucket(number, run(shuffled, start, stop))

    def finish(self) -> tuple[BlockInfo, ...]:
        """Write what is left; the blocks in order, complete but not yet durable."""
        if all(bucket.writer is None for bucket in self._buckets):
            self._merge_buckets()
        for number, bucket in enumerate(self._buckets):
            if bucket.parts:
                self._flush(number, bucket)
        self._wait(0)
        self._encoder.shutdown()
        self._journal.remove()
        return tuple(bucket.writer.finish() for bucket in self._buckets if bucket.writer is not None)

    def abandon(self) -> None:
        """Stop the encoder; what is staged is of no use."""
        self._encoder.shutdown(cancel_futures=True)
        self._journal.remove()

    def _add_to_bucket(self, number: int, rows: Rows) -> None:
        bucket = self._buckets[number]
        bucket.parts.append(rows)
        bucket.bytes += packed_bytes(len(rows), rows.nnz)
        if bucket.bytes >= PIECE_BYTES:
            self._flush(number, bucket)

    def _flush(self, number: int, bucket: _Bucket) -> None:
        if bucket.writer is None:
            bucket.writer = BlockWriter(block_path(self._directory, number), self._dataset, number)
        rows = bucket.take()
        self._pending.append((number, self._encoder.submit(bucket.writer.append, rows, self._next_row)))
        self._next_row += len(rows)
        self._wait(_MOST_PENDING)

    def _wait(self, most: int) -> None:
        """Hold the parser back when the encoder is behind; announce what is written, raise what went wrong."""
        while self._pending and (len(self._pending) > most or self._pending[0][1].done()):
            block, entry = self._pending.popleft()
            self._journal.announce(block, entry.result())

    def _merge_buckets(self) -> None:
        """A small dataset: put buckets together until each block is worth a piece."""
        merged = [_Bucket()]
        for bucket in self._buckets:
            if merged[-1].bytes >= PIECE_BYTES:
                merged.append(_Bucket())
            merged[-1].parts += bucket.parts
            merged[-1].bytes += bucket.bytes
        self._buckets = merged


def pick(rows: Rows, order: Array) -> Rows:
    """The rows `order` (k,) in that order."""
    lengths = np.diff(rows.indptr)[order]
    indptr = np.zeros(len(order) + 1, INDPTR)
    np.cumsum(lengths, out=indptr[1:])
    picked = Rows(rows.label[order], indptr, np.empty(indptr[-1], INDEX), np.empty(indptr[-1], VALUE))
    copy_rows(order, rows.indptr, rows.indices, rows.values, picked.indptr, picked.indices, picked.values)
    return picked


def run(rows: Rows, start: int, stop: int) -> Rows:
    """Rows start to stop, sharing memory."""
    first, last = rows.indptr[start], rows.indptr[stop]
    return Rows(
        rows.label[start:stop], rows.indptr[start : stop + 1] - first, rows.indices[first:last], rows.values[first:last]
    )


def concatenate(parts: list[Rows]) -> Rows:
    """All rows of all parts, in order."""
    starts = np.cumsum([0, *(part.nnz for part in parts[:-1])])
    return Rows(
        np.concatenate([part.label for part in parts]),
        np.concatenate([[0], *(part.indptr[1:] + start for part, start in zip(parts, starts, strict=True))]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
