"""Rows in a file, written behind while more of them are added, and read again, as long as its disk is worth it."""

import mmap
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import Packer
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer

_WRITE_BEHIND = 8  # segments, or one longer: a disk that pauses for some milliseconds is not waited for


class RowFile:
    """`add` rows, `finish`, read its segments; `clear` it to begin anew. All raise OSError when the disk fails.

    writer    of one thread: segments follow each other
    is_whole  whether the disk has taken every row that was added
    """

    def __init__(self, file: SpillFile, health: DiskHealth, writer: Executor) -> None:
        self.file = file
        self._health = health
        self._writer = writer
        self._packer = Packer(file.segment_bytes)
        self._spare = [make_buffer(file.segment_bytes) for _ in range(_WRITE_BEHIND)]
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self._behind = 0  # bytes of these
        self._others = 0
        self.is_whole = True

    @property
    def taken(self) -> int:
        """Bytes of the disk, those on their way included."""
        return self.file.bytes + self._behind

    def add(self, rows: Segment, picked: Array, others: int = 0) -> None:
        """The rows at the positions `picked` (k,), while the disk has room beside `others` bytes of ours."""
        self._others = others
        if self.is_whole:
            self._write(self._packer.add(rows, picked))

    def finish(self) -> bool:
        """Have all written; whether that is all that was added."""
        if self.is_whole:
            self._write(self._packer.rest())
        self._await(0)
        return self.is_whole

    def read(self, number: int, buffer: mmap.mmap, at_once: int) -> memoryview:
        """See `SpillFile.read`, `at_once` such reads being done side by side."""
        data = self._health.timed(self.file.sizes[number], at_once, lambda: self.file.read(number, buffer))
        self._health.check()
        return data

    def clear(self) -> None:
        """Forget all rows. Their disk stays, to be written again."""
        self._await(0)
        self._packer.clear()
        self.file.clear()
        self.is_whole = True

    def close(self) -> None:
        for writing, _ in self._writing:
            writing.exception()
        self.file.close()

    def _write(self, segments: Iterator[bytes]) -> None:
        for segment in segments:
            if not self._health.allows(self.taken + self._others, len(segment)):
                self.is_whole = False
                return
            self._await(_WRITE_BEHIND * self.file.segment_bytes - len(segment))
            self._health.check()
            buffer = self._spare.pop() if len(segment) == self.file.segment_bytes else make_buffer(len(segment))
            buffer[:] = segment
            self._writing.append((self._writer.submit(self._append, buffer), buffer))
            self._behind += len(segment)

    def _append(self, buffer: mmap.mmap) -> None:
        self._health.timed(len(buffer), 1, lambda: self.file.append(buffer))

    def _await(self, but: int) -> None:
        """Until all has been written but so many bytes."""
        while self._writing and self._behind > but:
            writing, buffer = self._writing.popleft()
            self._behind -= len(buffer)
            if len(buffer) == self.file.segment_bytes:
                self._spare.append(buffer)
            writing.result()
