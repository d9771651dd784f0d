"""Rows in a file without a name, written behind while more of them are added."""

import mmap
from collections import deque
from concurrent.futures import Executor, Future

from storage.csr import Array
from storage.patience import Patience
from storage.segment import Segment, SegmentBuilder
from storage.spill_file import SpillFile, make_buffer

_WRITE_BEHIND = 8  # segments: a disk that pauses for some milliseconds is not waited for


class RowFile:
    """`add` rows, `finish`, read its segments; `clear` it to begin anew. All raise OSError when the disk fails.

    writer    of one thread: segments follow each other
    is_whole  whether the disk has taken every row that was added
    """

    def __init__(self, file: SpillFile, patience: Patience, writer: Executor) -> None:
        self.file = file
        self._patience = patience
        self._writer = writer
        self._builder = SegmentBuilder(file.segment_bytes)
        self._spare = [make_buffer(file.segment_bytes) for _ in range(_WRITE_BEHIND)]
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self.is_whole = True

    @property
    def taken(self) -> int:
        """Bytes of the disk, those on their way included."""
        return self.file.bytes + len(self._writing) * self.file.segment_bytes

    def add(self, rows: Segment, picked: Array, others: int = 0) -> None:
        """The rows at the positions `picked` (k,), while the disk has room beside `others` bytes of ours."""
        while self.is_whole and len(picked):
            if self._builder.is_empty and not self._patience.allows(self.taken + others, self.file.segment_bytes):
                self.is_whole = False
                break
            added = self._builder.add(rows, picked)
            if not added and self._builder.is_empty:
                self.is_whole = False  # a row longer than a segment
            picked = picked[added:]
            if len(picked) and self.is_whole:
                self._write()

    def finish(self) -> bool:
        """Have all written; whether that is all that was added."""
        if not self._builder.is_empty:
            self._write()
        self._await(0)
        return self.is_whole

    def clear(self) -> None:
        """Forget all rows. Their disk stays, to be written again."""
        self._await(0)
        self._builder.clear()
        self.file.clear()
        self.is_whole = True

    def close(self) -> None:
        for writing, _ in self._writing:
            writing.exception()
        self.file.close()

    def _write(self) -> None:
        self._await(_WRITE_BEHIND - 1)
        if self._patience.is_over:
            raise OSError("the disk is slow")
        buffer = self._spare.pop()
        buffer[:] = self._builder.take()
        self._writing.append((self._writer.submit(self._append, buffer), buffer))

    def _append(self, buffer: mmap.mmap) -> None:
        self._patience.timed(len(buffer), 1, lambda: self.file.append(buffer))

    def _await(self, but: int) -> None:
        """Until all has been written but so many segments."""
        while len(self._writing) > but:
            writing, buffer = self._writing.popleft()
            self._spare.append(buffer)
            writing.result()
