"""Rows on the trainer's own disk, decoded, beside the cache: those that may have to move, see `solvers.active_set`.

Their segments, once written, are ready for training. A sweep over them takes a tenth of a pass and nobody but the
trainer, and the reader lets them stream by.
"""

import mmap
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from storage.csr import Array
from storage.segment import Segment, SegmentBuilder
from storage.spill_file import SPILL_SEGMENT, SpillFile, make_buffer
from storage.state import SPILLING
from trainer.disk_pace import DiskPace
from trainer.windows import Windows

_WRITE_BEHIND = 8  # a disk that pauses for some milliseconds is not waited for
# It grows while so many times what it has taken is free, and gives all back when there is less than once as much.
_FREE_WANTED = 2


class Spill:
    """`keep` rows in a pass, `turn` at its end, `read` them in the next. `narrow` it to some of them for a while.

    A disk that fails, is slow or full, or has no such files costs time only: the reader brings the rows then. One that
    is slow is tried again at the next turn, then after two more, four, and so on: others may have made it slow.

    directory   on the disk to use, or None: nothing is kept
    n_rows      that can be read; is_whole: they are all that was to be kept
    has_swept_all   whether the last sweep did not end before its time
    spilled     (n_rows,) uint8, of the job's state: which rows can be read, now and after the next `turn`
    """

    def __init__(self, directory: str | None, spilled: Array) -> None:
        self._spilled = spilled
        self._end = 0  # no row from here on has been kept
        self._kept = 0  # rows, since the last turn
        self.n_rows = 0
        self.is_whole = self._took_all = True  # as of the last turn, and since
        self.has_swept_all = False
        self._is_narrow = False
        self._builder = SegmentBuilder(SPILL_SEGMENT)
        self._pace = DiskPace(SPILL_SEGMENT)
        self._windows = Windows(self._pace)
        self._writer = ThreadPoolExecutor(1)
        self._files: list[SpillFile] = []  # what can be read, and what is written: what comes next, or a part of that
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self._unwritten = [make_buffer() for _ in range(_WRITE_BEHIND)]
        self._waits, self._next_waits = 0, 1  # turns until the disk is tried again, now and if it is slow then
        if directory is not None:
            self._open(directory)

    @property
    def n_segments(self) -> int:
        """Number of those that `read` and `sweep` read."""
        return len(self._to_read) if self._files else 0

    def keep(self, rows: Segment, picked: Array) -> None:
        """The rows at the positions `picked` (k,) can be read after the next `turn`, once each."""
        for some in self._add(rows, picked[self._spilled[rows.row_id[picked]] & SPILLING == 0]):
            kept = rows.row_id[some]
            self._spilled[kept] |= SPILLING
            self._end = max(self._end, int(kept.max(initial=-1)) + 1)
            self._kept += len(some)

    def turn(self) -> None:
        """What was kept since the last time takes the place of what was kept before."""
        if self._written():
            self._files.reverse()
            self._files[0].truncate()
            self._spilled[: self._end] //= SPILLING
            self.n_rows, self._kept = self._kept, 0
            self.is_whole, self._took_all = self._took_all, True
            self._change_file()
        if self._waits:
            self._waits -= 1
            if not self._waits:
                self._pace.forget()
                self._took_all = True
                self._open(self._directory)

    def set_aside(self, rows: Segment, picked: Array) -> None:
        """Of what can be read, the positions `picked` (k,) of these rows are what is left after `narrow`."""
        for _ in self._add(rows, picked):
            pass

    def narrow(self) -> None:
        """Until `widen`, sweeps bring only what was set aside since the last time, if the disk took it all."""
        self._is_narrow = self._written() and self._took_all
        self._took_all = True
        self._change_file()

    def widen(self) -> None:
        """Sweeps bring all rows again. To be called before any are kept."""
        if self._is_narrow:
            self._is_narrow = False
            self._change_file()

    def read(self, rng: np.random.Generator) -> Segment | None:
        """Some rows, valid until the next call, in sweeps of random order; None if the disk is not that fast."""
        if not self.n_segments or self._gives_way():
            return None
        self._windows.read_ahead(self._to_read, rng)
        return self._take() if self._windows.is_ready else None

    def sweep(self, rng: np.random.Generator) -> Iterator[Segment]:
        """All rows once, some at a time, valid until the next."""
        self._windows.forget()
        self.has_swept_all = False
        for _ in range(self._windows.count(self.n_segments)):
            self._windows.read_ahead(self._to_read, rng)
            rows = self._take()
            if rows is None:
                return
            yield rows
            if not self._files or self._gives_way():  # to keep some of them may have taken the last of the disk
                return
        self.has_swept_all = True

    def close(self) -> None:
        """Let go of the disk."""
        self._windows.close()
        self._writer.shutdown(cancel_futures=True)
        for file in self._files:
            file.close()

    def _open(self, directory: str) -> None:
        self._directory = directory
        try:
            for _ in range(2):
                self._files.append(SpillFile(directory))
        except OSError:
            self._give_up()

    @property
    def _to_read(self) -> SpillFile:
        return self._files[self._is_narrow]

    def _change_file(self) -> None:
        """Another file is read from now on, or the same one anew; the one that is not is written from its start."""
        self._windows.forget()
        if self._files and not self._is_narrow:
            self._files[1].clear()

    def _add(self, rows: Segment, picked: Array) -> Iterator[Array]:
        """Have rows written while the disk has room for them; yields their positions, some at a time."""
        while len(picked) and (not self._builder.is_empty or self._may_grow()):
            added = self._builder.add(rows, picked)
            if not added and self._builder.is_empty:
                picked = picked[1:]  # longer than a segment
                continue
            yield picked[:added]
            picked = picked[added:]
            if len(picked):
                self._write()
        self._took_all &= not len(picked)

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
        is_slow = self._pace.is_slow
        if is_slow:
            self._give_up()
            self._waits, self._next_waits = self._next_waits, 2 * self._next_waits
        return is_slow

    def _write(self) -> None:
        if self._await_writes(_WRITE_BEHIND - 1):
            buffer = self._unwritten.pop()
            buffer[:] = self._builder.take()
            self._writing.append((self._writer.submit(self._pace.timed, 1, self._files[1].append, buffer), buffer))

    def _written(self) -> bool:
        """Have all written that was added; whether there is a file at all."""
        if not self._builder.is_empty:
            self._write()
        return self._await_writes(0)

    def _await_writes(self, but: int) -> bool:
        """Wait until all has been written but so many segments; whether there is a file at all."""
        try:
            while len(self._writing) > but:
                writing, buffer = self._writing.popleft()
                self._unwritten.append(buffer)
                writing.result()
        except OSError:
            self._give_up()
        return bool(self._files)

    def _take(self) -> Segment | None:
        try:
            return self._windows.take()
        except OSError:
            self._give_up()
            return None

    def _give_up(self) -> None:
        """Leave all rows to the reader."""
        self._windows.forget()
        for writing, buffer in self._writing:
            writing.exception()
            self._unwritten.append(buffer)
        self._writing.clear()
        for file in self._files:
            file.close()
        self._files, self.n_rows, self._kept, self._is_narrow = [], 0, 0, False
        self._builder.clear()
        self._spilled[: self._end] = 0
