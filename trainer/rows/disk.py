"""All rows of the problem, decoded, in a file of the trainer's own: one pass of the reader serves many sweeps.

A sweep over them takes a tenth of a pass and needs no reader. A disk that fails, is slow or full, or has no such files
costs time only: the store is closed, and rows come from the cache, pass after pass.
"""

import mmap
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from storage import kept_rows
from storage.csr import Array
from storage.patience import Patience
from storage.row_file import RowFile
from storage.segment import Segment, view
from storage.spill_file import SPILL_SEGMENT, SpillFile, make_buffer
from trainer.rows.mixture import SEGMENTS, IsActive, Mixture

_READS = 2  # at once: a fifth faster than one after the other
_MOST_MIXED = 4 * SEGMENTS  # segments' bytes in a window: of rows that are long fewer are mixed


class Shelf(NamedTuple):
    """Where rows are kept for the next job: the directory of their dataset, and what they are known by."""

    directory: Path
    key: kept_rows.Key


class DiskRows:
    """`collect` what a pass brings, `seal` it, then sweep: over all rows, or those `set_aside` in the sweep before.

    directory   on the disk to use, or None: nothing is kept
    shelf       where rows may have been kept by another job, and will be for the next; None: nowhere
    lent        windows that may be in use at a time
    n_rows      that were collected; is_open: the disk takes part
    has_active  what was set aside, n_aside rows, is read instead of all, where active rows are asked for
    """

    def __init__(
        self,
        directory: str | None,
        lent: int = 1,
        shelf: Shelf | None = None,
        segment_bytes: int = SPILL_SEGMENT,
        make_patience: Callable[[str], Patience] = Patience,
        make_file: Callable[[str, int], SpillFile] = SpillFile,
    ) -> None:
        self._shelf = shelf
        self._writer, self._readers = ThreadPoolExecutor(1), ThreadPoolExecutor(_READS)
        self._read_ahead = _ReadAhead(self._readers, lent)
        self._files: list[RowFile] = []  # all rows, and the active ones
        self.n_rows = self.n_aside = 0
        self._is_aside = np.zeros(0, bool)  # by row id
        self._is_sealed = self.has_active = False
        if directory is not None:
            with self._closing_on_failure():
                patience = make_patience(directory)
                kept = shelf and kept_rows.find(*shelf)
                if kept:
                    segment_bytes, (file, self.n_rows), self._is_sealed = kept[0].segment_bytes, kept, True
                else:
                    file = make_file(directory, segment_bytes)
                self._files.append(RowFile(file, patience, self._writer))
                self._files.append(RowFile(make_file(directory, segment_bytes), patience, self._writer))

    @property
    def is_open(self) -> bool:
        return bool(self._files)

    @property
    def is_sealed(self) -> bool:
        """Whether there are rows to sweep over."""
        return self.is_open and self._is_sealed

    @property
    def n_bytes(self) -> int:
        """Of all rows there are."""
        return self._files[0].file.bytes

    def collect(self, rows: Segment, picked: Array) -> None:
        """The rows at the positions `picked` (k,) are of those there are."""
        with self._closing_on_failure():
            if self.is_open and not self._is_sealed:
                self._files[0].add(rows, picked)
                self.n_rows += len(picked)
                if not self._files[0].is_whole:
                    self.close()

    def seal(self, n_rows: int) -> None:
        """So many rows there are; nothing is kept unless all of them have come."""
        with self._closing_on_failure():
            if self.is_open and not self._is_sealed:
                self._is_sealed = self._files[0].finish() and self.n_rows == n_rows
                if not self._is_sealed:
                    self.close()
                elif self._shelf:
                    with suppress(OSError):
                        kept_rows.keep(self._files[0].file, *self._shelf, n_rows)

    def windows(self, is_active: IsActive | None, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once; if some are asked for, those set aside, or all. Ends early, closed, if the disk fails.

        A window is valid until `lent` more have been taken.
        """
        with self._closing_on_failure():
            if self.is_sealed:
                file = self._files[self.has_active and is_active is not None]
                for window in self._read_ahead.windows(file, rng):
                    yield window
                    if not self.is_open:
                        return

    def forget_active(self) -> None:
        """Those set aside from now on are the active ones."""
        with self._closing_on_failure():
            self.has_active, self.n_aside = False, 0
            self._is_aside = np.zeros(self.n_rows, bool)
            if self.is_open:
                self._files[1].clear()

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """The rows at the positions `picked` (k,) are active. What was set aside before is not written again."""
        with self._closing_on_failure():
            if self.is_open:
                picked = picked[~self._is_aside[rows.row_id[picked]]]
                self._is_aside[rows.row_id[picked]] = True
                self.n_aside += len(picked)
                self._files[1].add(rows, picked, others=self._files[0].taken)

    def narrow(self) -> None:
        """The active rows have all been set aside; if the disk has not taken them, all rows are swept over."""
        with self._closing_on_failure():
            if self.is_open:
                self.has_active = self._files[1].finish()

    def close(self) -> None:
        """Let go of the disk."""
        files, self._files = self._files, []
        self._read_ahead.drain()
        for file in files:
            with suppress(OSError):  # a disk that is gone may say so once more
                file.close()

    def shutdown(self) -> None:
        """No more is to come."""
        self.close()
        for pool in (self._writer, self._readers):
            pool.shutdown(cancel_futures=True)

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.close()
            if self._shelf:
                with suppress(OSError):
                    kept_rows.release(self._shelf.directory)


MakeDisk = Callable[[str | None, int, Shelf | None], DiskRows]  # directory, windows lent, where rows are kept


class _ReadAhead:
    """Windows on the rows of a file, some segments each. `lent` may be in use at a time, two more are being read."""

    def __init__(self, pool: Executor, lent: int) -> None:
        self._pool = pool
        self._coming: deque[Future[Segment]] = deque()
        self._windows = deque(_Window() for _ in range(lent + _READS))

    def windows(self, rows: RowFile, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once; each window is valid until `lent` more have been taken. Raises OSError."""
        order = rng.permutation(len(rows.file)).tolist()
        try:
            for numbers in _some_at_a_time(order, rows.file):
                window = self._windows.popleft()
                self._windows.append(window)
                self._coming.append(self._pool.submit(window.fill, rows, numbers))
                if len(self._coming) >= _READS:
                    yield self._coming.popleft().result()
            while self._coming:
                yield self._coming.popleft().result()
        finally:
            self.drain()

    def drain(self) -> None:
        """Wait for what is being read, whatever it is: it is of no use any more."""
        while self._coming:
            self._coming.popleft().exception()


def _some_at_a_time(order: list[int], file: SpillFile) -> Iterator[list[int]]:
    """The segments of these numbers; those that are long alone, or fewer together."""
    some: list[int] = []
    n_bytes, most_bytes = 0, _MOST_MIXED * file.segment_bytes
    for number in order:
        if len(some) == SEGMENTS or (some and n_bytes + file.sizes[number] > most_bytes):
            yield some
            some, n_bytes = [], 0
        some.append(number)
        n_bytes += file.sizes[number]
    if some:
        yield some


class _Window:
    """Memory for some segments side by side, or for one."""

    def __init__(self) -> None:
        self._mixture = Mixture()
        self._buffer: mmap.mmap = make_buffer()

    def fill(self, rows: RowFile, numbers: list[int]) -> Segment:
        if len(numbers) == 1:
            return self._read(rows, numbers[0])
        self._mixture.clear()
        for number in numbers:
            self._mixture.add(self._read(rows, number))
        return self._mixture.rows

    def _read(self, rows: RowFile, number: int) -> Segment:
        """Valid until the next."""
        if len(self._buffer) < rows.file.sizes[number]:
            self._buffer = make_buffer(rows.file.sizes[number])
        return view(rows.read(number, self._buffer, _READS))
