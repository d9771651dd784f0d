"""Stores of rows on disk, for sweeps without the reader: all rows of the problem, and a copy of the active rows.

All rows are in the blocks of the dataset or, on a machine to which other machines send rows, in a file of decoded
rows. Active rows are copied to another file. A disk that fails, is slow or full, or cannot have unnamed files costs
time only: the store is closed, and rows come from the cache, pass after pass.
"""

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import NO_ROOM
from streamsvm.storage.files.direct import Pages
from streamsvm.storage.machine.disk_health import DiskFull, DiskHealth, DiskSlow
from streamsvm.storage.machine.resources import PageBudget
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.row_runs import RUN
from streamsvm.storage.rows.segment import Segment, packed_bytes
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT, RowFile, SpillFile, make_buffer
from streamsvm.trainer.problem.row_encoder import RowEncoder
from streamsvm.trainer.rows.cache import CachedRows
from streamsvm.trainer.rows.mixture import SEGMENTS, IsActive, Mixture
from streamsvm.trainer.settings import TrainerSettings

_LEAST_READS = 2  # reads at the same time: a fifth faster than one read after the other
_MOST_MIXED = 4 * SEGMENTS  # segments' worth of bytes in a window read from a file: fewer long segments are mixed


class StoredRows:
    """The rows of a complete dataset: each piece of its blocks is one segment. Threads may read at the same time.

    The first pieces stay in the page cache, compressed, as far as a PageBudget allows; the others are read past the
    page cache.

    health  limits how long the disk may take
    sizes   (n,) decoded bytes of each segment
    n_rows  number of rows
    """

    segment_bytes = 5 << 15  # a window has two pieces of a MiB, decoded: each is a random part of 64 times as many rows

    def __init__(self, dataset: Dataset, encoder: RowEncoder, health: DiskHealth) -> None:
        self._dataset, self._encoder, self._health, self._budget = dataset, encoder, health, PageBudget()
        self._pieces = dataset.all_pieces()
        self._ends = np.cumsum(self._pieces["bytes"], dtype=np.int64)
        rows: Array = self._pieces["rows"].astype(np.int64)
        self.sizes: list[int] = packed_bytes(rows, self._pieces["nnz"].astype(np.int64)).tolist()
        self.n_rows = int(rows.sum())

    @classmethod
    def of(cls, settings: TrainerSettings, health: DiskHealth) -> "StoredRows":
        """Open the rows of the complete dataset that these settings name. Raises StorageError."""
        dataset, tasks = Dataset(Path(settings.stored_rows["dataset"])), settings.tasks
        part = settings.stored_rows["part_rows"]
        encoder = RowEncoder.of_tasks(
            tasks, dataset.manifest.weights is not None, settings.maps.early, part and np.array(part, RUN),
            makes_dense=not len(settings.maps.late), folds=settings.folds,
        )  # fmt: skip
        if not (tasks.labels or tasks.is_regression):
            # The run follows the dataset: its reader has found out which of two labels is the positive one.
            encoder.labels = (max(dataset.manifest.labels),)
        return cls(dataset, encoder, health)

    @property
    def lacked_memory(self) -> bool:
        """Whether some pieces were read past the page cache because memory was short."""
        return self._budget.lacked_memory

    def __len__(self) -> int:
        return len(self.sizes)

    def segment(self, number: int, at_once: int, _memory: Callable[[int], mmap.mmap]) -> Segment:
        """Return the rows of piece `number`; `at_once` threads are reading. Raises DatasetCorrupt, OSError."""
        location = self._pieces[number]
        pages = Pages.KEPT if self._budget.holds(self._ends[number]) else Pages.PASSED
        # Speed counts decoded bytes, as for a file of decoded rows: a disk is slow if rows come late.
        fetched = self._health.timed(self.sizes[number], at_once, lambda: self._dataset.fetch(location, pages))
        self._health.check()
        return self._encoder.encode(self._dataset.decode(location, fetched))


class ReadAhead:
    """Reads windows of a few segments, by threads. `lent` windows may be in use while `at_once` more are being read."""

    def __init__(self, lent: int) -> None:
        self.at_once = max(_LEAST_READS, lent // 2)  # to decode rows takes about half as long as to visit them
        self.pool = ThreadPoolExecutor(self.at_once)
        self._coming: deque[Future[Segment]] = deque()
        self._windows = deque(_Window(self.at_once) for _ in range(lent + self.at_once))

    def windows(self, rows: StoredRows | RowFile, rng: np.random.Generator | None) -> Iterator[Segment]:
        """Yield all rows once: windows of some segments mixed in random order or, if `rng` is None, segments in order.

        Each window is valid until `lent` more have been taken. Raises OSError.
        """
        groups: Iterator[list[int]] = ([number] for number in range(len(rows)))
        if rng is not None:
            groups = _some_at_a_time(rng.permutation(len(rows)).tolist(), rows.sizes, _MOST_MIXED * rows.segment_bytes)
        try:
            for numbers in groups:
                window = self._windows.popleft()
                self._windows.append(window)
                self._coming.append(self.pool.submit(window.fill, rows, numbers))
                if len(self._coming) >= self.at_once:
                    yield self._coming.popleft().result()
            while self._coming:
                yield self._coming.popleft().result()
        finally:
            self.drain()

    def drain(self) -> None:
        """Wait until no window is being read. Errors are ignored, since nobody uses these windows."""
        while self._coming:
            self._coming.popleft().exception()


def _some_at_a_time(order: list[int], sizes: Sequence[int], most_bytes: int) -> Iterator[list[int]]:
    """Yield the numbers of the segments of each window: SEGMENTS in each, fewer where long rows make segments large."""
    some: list[int] = []
    n_bytes = 0
    for number in order:
        if len(some) == SEGMENTS or (some and n_bytes + sizes[number] > most_bytes):
            yield some
            some, n_bytes = [], 0
        some.append(number)
        n_bytes += sizes[number]
    if some:
        yield some


class _Window:
    """Memory for the segments of a window. `at_once` windows are read at the same time."""

    def __init__(self, at_once: int) -> None:
        self._at_once, self._mixture = at_once, Mixture()
        self._buffer: mmap.mmap = make_buffer()

    def fill(self, rows: StoredRows | RowFile, numbers: list[int]) -> Segment:
        if len(numbers) == 1:
            return rows.segment(numbers[0], self._at_once, self._memory)
        self._mixture.clear()
        for number in numbers:
            self._mixture.add(rows.segment(number, self._at_once, self._memory))
        return self._mixture.rows

    def _memory(self, size: int) -> mmap.mmap:
        """Return a buffer of at least `size` bytes: the same buffer at each call, unless it was too small."""
        if len(self._buffer) < size:
            self._buffer = make_buffer(size)
        return self._buffer


OpenStored = Callable[[DiskHealth], StoredRows]


class DiskRows:
    """Rows on disk. `seal` them when a pass has ended, then sweep: over all rows, or those `set_aside` before.

    directory    directory of the files, on the disk to use; None: there is no disk to use
    lent         number of windows that may be in use at a time
    open_stored  opens the rows of the dataset, once it is complete; None: rows come by `collect`, into a file
    n_rows       number of all rows, or of those collected so far
    is_open      False after the disk has failed, or was full or slow
    slowdowns    codes of storage.run.slowdowns: why the store is closed, or slower than it could be
    has_active   sweeps over active rows read the n_aside rows that were set aside, instead of all rows
    """

    def __init__(
        self,
        directory: str | None,
        lent: int = 1,
        open_stored: OpenStored | None = None,
        segment_bytes: int = SPILL_SEGMENT,
        make_health: Callable[[str], DiskHealth] = DiskHealth,
        make_file: Callable[[str, int], SpillFile] = SpillFile,
    ) -> None:
        self._writer, self._read_ahead = ThreadPoolExecutor(1), ReadAhead(lent)
        self._open_stored = open_stored
        self._all: StoredRows | RowFile | None = None  # None until `seal`
        self._collected: RowFile | None = None
        self._active: RowFile | None = None
        self.n_rows = self.n_aside = 0
        self._is_aside = np.zeros(0, bool)  # by row id
        self.has_active = False
        self._slowdowns: set[str] = set()
        if directory is not None:
            with self._closing_on_failure():
                self._health = make_health(directory)
                if open_stored is None:
                    self._collected = RowFile(make_file(directory, segment_bytes), self._health, self._writer)
                self._active = RowFile(make_file(directory, segment_bytes), self._health, self._writer)

    @property
    def is_open(self) -> bool:
        return self._active is not None

    @property
    def slowdowns(self) -> set[str]:
        if any(rows.lacked_memory for rows in (self._all, self._active) if rows is not None):
            self._slowdowns.add("disk_uncached")
        return self._slowdowns

    @property
    def is_sealed(self) -> bool:
        """Whether there are rows to sweep over."""
        return self._all is not None

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows, decoded; 0 before `seal`."""
        return 0 if self._all is None else sum(self._all.sizes)

    def collect(self, rows: Segment, picked: Array) -> None:
        """Write the rows at the positions `picked` (k,) to the file of all rows, where there is one."""
        with self._closing_on_failure():
            if self._collected is not None and not self.is_sealed:
                self._collected.add(rows, picked)
                self.n_rows += len(picked)
                if not self._collected.is_whole:
                    self._give_up("disk_full")

    def seal(self, n_rows: int) -> None:
        """Make all `n_rows` rows of the problem ready for sweeps. Close the store if some of the rows are missing."""
        with self._closing_on_failure():
            if not self.is_open or self.is_sealed:
                return
            if self._open_stored is not None:
                self._all = self._open_stored(self._health)
                self.n_rows = self._all.n_rows
            elif self._collected is not None and self._collected.finish():
                self._all = self._collected
            else:
                self._give_up("disk_full")
            if self.n_rows != n_rows:
                self.close()

    def windows(self, is_active: IsActive | None, rng: np.random.Generator) -> Iterator[Segment]:
        """Yield all rows once, in windows; with `is_active`, the rows set aside, if there is a complete file of them.

        A window is valid until `lent` more have been taken. If the disk fails, the store closes and windows end early.
        """
        return self._read(self._active if self.has_active and is_active is not None else self._all, rng)

    def in_order(self) -> Iterator[Segment]:
        """Yield all rows once, in the order in which they are stored, each window valid as those of `windows` are."""
        return self._read(self._all, None)

    def _read(self, rows: StoredRows | RowFile | None, rng: np.random.Generator | None) -> Iterator[Segment]:
        with self._closing_on_failure():
            if rows is not None and self.is_sealed:
                for window in self._read_ahead.windows(rows, rng):
                    yield window
                    if not self.is_open:
                        return

    def forget_active(self) -> None:
        """Empty the file of active rows."""
        with self._closing_on_failure():
            self.has_active, self.n_aside = False, 0
            self._is_aside = np.zeros(self.n_rows, bool)
            if self._active is not None:
                self._active.clear()

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """Write the rows at the positions `picked` (k,) to the file of active rows, except those that it has."""
        with self._closing_on_failure():
            if self._active is not None:
                picked = picked[~self._is_aside[rows.row_id[picked]]]
                self._is_aside[rows.row_id[picked]] = True
                self.n_aside += len(picked)
                self._active.add(rows, picked, others=0 if self._collected is None else self._collected.taken)

    def narrow(self) -> None:
        """Let sweeps over active rows read only the rows set aside from now on, if the disk has them all."""
        with self._closing_on_failure():
            if self._active is not None:
                self.has_active = self._active.finish()
                if not self.has_active:
                    self._slowdowns.add("disk_full")

    def close(self) -> None:
        """Close the files. The solver gets its rows from the cache from now on."""
        files = [file for file in (self._collected, self._active) if file is not None]
        self._all = self._collected = self._active = None
        self._read_ahead.drain()
        for file in files:
            with suppress(OSError):  # the failed disk may fail again
                file.close()

    def shutdown(self) -> None:
        """Close the files, and end the threads that read and write them."""
        self.close()
        for pool in (self._writer, self._read_ahead.pool):
            pool.shutdown(cancel_futures=True)

    def _give_up(self, because: str) -> None:
        self._slowdowns.add(because)
        self.close()

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            is_full = isinstance(error, DiskFull) or error.errno in NO_ROOM
            self._give_up("disk_full" if is_full else "disk_slow" if isinstance(error, DiskSlow) else "disk_failed")


MakeDisk = Callable[[str | None, int, OpenStored | None], DiskRows]  # directory, windows lent, how to open stored rows
RowStore = DiskRows | CachedRows  # all rows of the problem
