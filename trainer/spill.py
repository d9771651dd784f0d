"""Rows on the trainer's own disk, decoded, beside the cache: those that may have to move, see `solvers.active_set`.

Their segments, once written, are ready for training. A sweep over them takes a tenth of a pass and nobody but the
trainer, and the reader lets them stream by.
"""

import mmap
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from storage.csr import Array
from storage.segment import Segment, SegmentBuilder, view
from storage.spill_file import SPILL_SEGMENT, SpillFile, make_buffer
from storage.state import SPILLING

T = TypeVar("T")

_READS = 2  # at once: a fifth faster than one after the other
_READ_AHEAD = 4
_WRITE_BEHIND = 4  # a disk that pauses for some milliseconds is not waited for
# It grows while so many times what it has taken is free, and gives all back when there is less than once as much.
_FREE_WANTED = 2
# A disk that takes longer for a segment, at 200 MB/s, is the reader's alone: what is read here would be missed there.
# Others may have made it slow: it is tried again at the next turn, then after two more, four, and so on.
_TOO_SLOW = 5e-3
_AVERAGED = 64  # segments: a pause of a quarter of a second is no sign of slowness


class Spill:
    """`keep` rows in a pass, `turn` at its end, `read` them in the next.

    A disk that fails, is slow or full, or has no such files costs time only: the reader brings the rows then.

    directory   on the disk to use, or None: nothing is kept
    n_rows      that can be read; is_whole: they are all that was to be kept
    spilled     (n_rows,) uint8, of the job's state: which rows can be read, now and after the next `turn`
    """

    def __init__(self, directory: str | None, spilled: Array) -> None:
        self._spilled = spilled
        self._end = 0  # no row from here on has been kept
        self._kept = 0  # rows, since the last turn
        self.n_rows = 0
        self.is_whole = self._is_whole = True  # as of the last turn, and since
        self._builder = SegmentBuilder(SPILL_SEGMENT)
        self._reader, self._writer = ThreadPoolExecutor(_READS), ThreadPoolExecutor(1)
        self._seconds = 0.0  # to read or write a segment, a moving average
        self._files: list[SpillFile] = []  # the one that is read, the one that is written
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self._unwritten = [make_buffer() for _ in range(_WRITE_BEHIND)]
        self._order: list[int] = []  # segments still to be read in this sweep
        self._coming: deque[Future[mmap.mmap]] = deque()
        self._lent: mmap.mmap | None = None  # has what the last `read` returned
        self._free: list[mmap.mmap] = []
        self._waits, self._next_waits = 0, 1  # turns until the disk is tried again, now and if it is slow then
        if directory is not None:
            self._open(directory)

    @property
    def n_segments(self) -> int:
        """Number of those that can be read."""
        return len(self._files[0]) if self._files else 0

    def keep(self, rows: Segment, picked: Array) -> None:
        """The rows at the positions `picked` (k,) can be read after the next `turn`, once each."""
        picked = picked[self._spilled[rows.row_id[picked]] & SPILLING == 0]
        while len(picked) and (not self._builder.is_empty or self._may_grow()):
            added = self._builder.add(rows, picked)
            if not added and self._builder.is_empty:
                picked = picked[1:]  # longer than a segment
                continue
            kept = rows.row_id[picked[:added]]
            self._spilled[kept] |= SPILLING
            self._end = max(self._end, int(kept.max(initial=-1)) + 1)
            self._kept += added
            picked = picked[added:]
            if len(picked):
                self._write()
        self._is_whole &= not len(picked)

    def turn(self) -> None:
        """What was kept since the last time takes the place of what was kept before."""
        if not self._builder.is_empty:
            self._write()
        if self._written(0):
            self._finish_reading()
            self._files.reverse()
            self._files[0].truncate()
            self._spilled[: self._end] //= SPILLING
            self.n_rows, self._kept = self._kept, 0
            self.is_whole, self._is_whole = self._is_whole, True
            self._files[1].clear()
        if self._waits:
            self._waits -= 1
            if not self._waits:
                self._seconds, self._is_whole = 0.0, True
                self._open(self._directory)

    def read(self, rng: np.random.Generator) -> Segment | None:
        """A segment, valid until the next call, in sweeps of random order; None if the disk is not that fast."""
        if not self.n_segments or self._gives_way():
            return None
        self._read_ahead(rng)
        return self._take() if self._coming[0].done() else None

    def sweep(self, rng: np.random.Generator) -> Iterator[Segment]:
        """All segments once, each valid until the next."""
        if self._files:
            self._finish_reading()
        for _ in range(self.n_segments):
            self._read_ahead(rng)
            rows = self._take()
            if rows is None:
                return
            yield rows
            if not self._files or self._gives_way():  # to keep some of them may have taken the last of the disk
                return

    def close(self) -> None:
        """Let go of the disk."""
        self._reader.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)
        for file in self._files:
            file.close()

    def _open(self, directory: str) -> None:
        self._directory = directory
        self._finish_reading()
        try:
            for _ in range(2):
                self._files.append(SpillFile(directory))
        except OSError:
            self._give_up()

    def _may_grow(self) -> bool:
        """Whether there is room for a segment. The disk is for the data, first of all: that may be arriving still."""
        if not self._files or self._gives_way():
            return False
        free = shutil.disk_usage(self._directory).free
        taken = sum(file.bytes for file in self._files) + len(self._writing) * SPILL_SEGMENT
        if free < taken:
            self._give_up()
        return free >= _FREE_WANTED * (taken + SPILL_SEGMENT)

    def _gives_way(self) -> bool:
        """Whether the disk is too slow for two; nothing is left here then."""
        is_slow = self._seconds > _TOO_SLOW
        if is_slow:
            self._give_up()
            self._waits, self._next_waits = self._next_waits, 2 * self._next_waits
        return is_slow

    def _timed(self, at_once: int, work: Callable[..., T], *arguments: object) -> T:
        """What the work, a segment's, results in; its time counts, so much of it done at once."""
        began = time.perf_counter()
        result = work(*arguments)
        self._seconds += ((time.perf_counter() - began) / at_once - self._seconds) / _AVERAGED
        return result

    def _write(self) -> None:
        if self._written(_WRITE_BEHIND - 1):
            buffer = self._unwritten.pop()
            buffer[:] = self._builder.take()
            self._writing.append((self._writer.submit(self._timed, 1, self._files[1].append, buffer), buffer))

    def _written(self, but: int) -> bool:
        """Wait until all has been written but so many segments; whether there is a file at all."""
        try:
            while len(self._writing) > but:
                writing, buffer = self._writing.popleft()
                self._unwritten.append(buffer)
                writing.result()
        except OSError:
            self._give_up()
        return bool(self._files)

    def _read_ahead(self, rng: np.random.Generator) -> None:
        if self._lent is not None:
            self._free.append(self._lent)
            self._lent = None
        while self._free:
            self._order = self._order or rng.permutation(self.n_segments).tolist()
            number, buffer = self._order.pop(), self._free.pop()
            self._coming.append(self._reader.submit(self._timed, _READS, self._files[0].read, number, buffer))

    def _take(self) -> Segment | None:
        try:
            self._lent = self._coming.popleft().result()
        except OSError:
            self._give_up()
            return None
        return view(memoryview(self._lent))

    def _finish_reading(self) -> None:
        for coming in self._coming:
            coming.exception()  # whatever it is, it is of no use any more
        self._coming.clear()
        self._order.clear()
        self._lent = None
        self._free = [make_buffer() for _ in range(_READ_AHEAD)]

    def _give_up(self) -> None:
        """Leave all rows to the reader."""
        self._finish_reading()
        for writing, buffer in self._writing:
            writing.exception()
            self._unwritten.append(buffer)
        self._writing.clear()
        for file in self._files:
            file.close()
        self._files, self.n_rows, self._kept = [], 0, 0
        if not self._builder.is_empty:
            self._builder.take()
        self._spilled[: self._end] = 0
