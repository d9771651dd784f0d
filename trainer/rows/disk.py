"""All rows of the problem, decoded, in a file of the trainer's own: one pass of the reader serves many sweeps.

A sweep over them takes a tenth of a pass and needs no reader. A disk that fails, is slow or full, or has no such files
costs time only: the store is closed, and rows come from the cache, pass after pass.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np

from streamsvm.storage.errors import NO_ROOM
from streamsvm.storage.machine.disk_health import DiskFull, DiskHealth, DiskSlow
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.decoded_row_cache import DecodedRowCache, release
from streamsvm.storage.rows.row_file import RowFile
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT, SpillFile
from streamsvm.trainer.rows.mixture import READS, IsActive, ReadAhead


class DiskRows:
    """`collect` what a pass brings, `seal` it, then sweep: over all rows, or those `set_aside` in the sweep before.

    directory   on the disk to use; None: no rows are kept on disk
    row_cache   holds decoded rows of an earlier job, and takes those of this job for the next; None: no cache
    lent        windows that may be in use at a time
    n_rows      rows collected so far
    is_open     False after the disk has failed, or was full or slow
    slowdowns   codes of storage.run.slowdowns: why the store is closed, or slower than it could be
    has_active  sweeps over active rows read the n_aside rows that were set aside, instead of all rows
    """

    def __init__(
        self,
        directory: str | None,
        lent: int = 1,
        row_cache: DecodedRowCache | None = None,
        segment_bytes: int = SPILL_SEGMENT,
        make_health: Callable[[str], DiskHealth] = DiskHealth,
        make_file: Callable[[str, int], SpillFile] = SpillFile,
    ) -> None:
        self._row_cache = row_cache
        self._writer, self._readers = ThreadPoolExecutor(1), ThreadPoolExecutor(READS)
        self._read_ahead = ReadAhead(self._readers, lent)
        self._files: list[RowFile] = []  # all rows, and the active ones
        self.n_rows = self.n_aside = 0
        self._is_aside = np.zeros(0, bool)  # by row id
        self._is_sealed = self.has_active = False
        self._slowdowns: set[str] = set()
        if directory is not None:
            with self._closing_on_failure():
                health = make_health(directory)
                kept = row_cache and row_cache.find()
                if kept:
                    segment_bytes, (file, self.n_rows), self._is_sealed = kept[0].segment_bytes, kept, True
                else:
                    file = make_file(directory, segment_bytes)
                    if row_cache and row_cache.take_release_notice():
                        self._slowdowns.add("rows_released")
                self._files.append(RowFile(file, health, self._writer))
                self._files.append(RowFile(make_file(directory, segment_bytes), health, self._writer))

    @property
    def is_open(self) -> bool:
        return bool(self._files)

    @property
    def slowdowns(self) -> set[str]:
        if any(file.file.lacked_memory for file in self._files):
            self._slowdowns.add("disk_uncached")
        return self._slowdowns

    @property
    def is_sealed(self) -> bool:
        """Whether there are rows to sweep over."""
        return self.is_open and self._is_sealed

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows."""
        return self._files[0].file.bytes

    def collect(self, rows: Segment, picked: Array) -> None:
        """Write the rows at the positions `picked` (k,) to the file of all rows."""
        with self._closing_on_failure():
            if self.is_open and not self._is_sealed:
                self._files[0].add(rows, picked)
                self.n_rows += len(picked)
                if not self._files[0].is_whole:
                    self._give_up("disk_full")

    def seal(self, n_rows: int) -> None:
        """Finish the file of all rows. If not all `n_rows` rows of the problem have come, close it: nothing is kept."""
        with self._closing_on_failure():
            if self.is_open and not self._is_sealed:
                is_whole = self._files[0].finish()
                self._is_sealed = is_whole and self.n_rows == n_rows
                if not is_whole:
                    self._give_up("disk_full")
                elif not self._is_sealed:
                    self.close()
                elif self._row_cache:
                    self._keep(self._row_cache, n_rows)

    def _keep(self, row_cache: DecodedRowCache, n_rows: int) -> None:
        try:
            row_cache.keep(self._files[0].file, n_rows)
        except OSError:
            self._slowdowns.add("rows_not_kept")

    def windows(self, is_active: IsActive | None, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once; with `is_active`, the rows set aside, if there are any. Ends early, closed, if the disk fails.

        A window is valid until `lent` more have been taken.
        """
        file = self._files[self.has_active and is_active is not None] if self.is_sealed else None
        return self._read(file, rng)

    def in_order(self) -> Iterator[Segment]:
        """All rows once, in the order in which they lie. Ends early, closed, if the disk fails; see `windows`."""
        return self._read(self._files[0] if self.is_sealed else None, None)

    def _read(self, file: RowFile | None, rng: np.random.Generator | None) -> Iterator[Segment]:
        with self._closing_on_failure():
            if file is not None:
                for window in self._read_ahead.windows(file, rng):
                    yield window
                    if not self.is_open:
                        return

    def forget_active(self) -> None:
        """Empty the file of active rows."""
        with self._closing_on_failure():
            self.has_active, self.n_aside = False, 0
            self._is_aside = np.zeros(self.n_rows, bool)
            if self.is_open:
                self._files[1].clear()

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """Write active rows, at the positions `picked` (k,), to the file of active rows, unless they are there."""
        with self._closing_on_failure():
            if self.is_open:
                picked = picked[~self._is_aside[rows.row_id[picked]]]
                self._is_aside[rows.row_id[picked]] = True
                self.n_aside += len(picked)
                self._files[1].add(rows, picked, others=self._files[0].taken)

    def narrow(self) -> None:
        """Sweep over the rows set aside from now on. If the disk has not taken them, sweep over all rows."""
        with self._closing_on_failure():
            if self.is_open:
                self.has_active = self._files[1].finish()

    def close(self) -> None:
        """Close the files: rows come from the cache from now on."""
        files, self._files = self._files, []
        self._read_ahead.drain()
        for file in files:
            with suppress(OSError):  # the failed disk may fail again
                file.close()

    def shutdown(self) -> None:
        """Close the files and end the threads."""
        self.close()
        for pool in (self._writer, self._readers):
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
            if self._row_cache:
                with suppress(OSError):
                    release(self._row_cache.directory)


MakeDisk = Callable[[str | None, int, DecodedRowCache | None], DiskRows]  # directory, windows lent, where rows are kept
