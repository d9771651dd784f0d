"""A file of rows: a thread writes segments while more rows are added, and the disk's health limits its use."""

import mmap
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

from streamsvm.storage.machine.disk_health import DiskHealth
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.packing import Packer
from streamsvm.storage.rows.segment import Segment
from streamsvm.storage.rows.spill_file import SpillFile, make_buffer

_WRITE_BEHIND = 8  # segments that may wait to be written: `add` then need not wait for short pauses of the disk


class RowFile:
    """`add` rows, `finish`, then `read` segments; `clear` it to begin anew. All raise OSError when the disk fails.

    writer    an executor of one thread, which keeps segments in order
    is_whole  whether every added row was or will be written; False: the disk had no room
    """

    def __init__(self, file: SpillFile, health: DiskHealth, writer: Executor) -> None:
        self.file = file
        self._health = health
        self._writer = writer
        self._packer = Packer(file.segment_bytes)
        self._spare = [make_buffer(file.segment_bytes) for _ in range(_WRITE_BEHIND)]
        self._writing: deque[tuple[Future[None], mmap.mmap]] = deque()
        self._behind = 0  # bytes in `_writing`
        self._others = 0
        self.is_whole = True

    @property
    def taken(self) -> int:
        """Bytes that the file takes of the disk, segments about to be written included."""
        return self.file.bytes + self._behind

    def add(self, rows: Segment, picked: Array, others: int = 0) -> None:
        """Add the rows at the positions `picked` (k,), unless the disk has no room.

        others   bytes that other files of the job take of the same disk
        """
        self._others = others
        if self.is_whole:
            self._write(self._packer.add(rows, picked))

    def finish(self) -> bool:
        """Write what is left to write; returns `is_whole`."""
        if self.is_whole:
            self._write(self._packer.rest())
        self._await(0)
        return self.is_whole

    def read(self, number: int, buffer: mmap.mmap, at_once: int) -> memoryview:
        """See `SpillFile.read`; `at_once` threads do such reads. Raises DiskSlow, too."""
        data = self._health.timed(self.file.sizes[number], at_once, lambda: self.file.read(number, buffer))
        self._health.check()
        return data

    def clear(self) -> None:
        """Forget all rows. The file keeps its space and writes over it."""
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
        """Wait until at most `but` bytes are still to be written."""
        while self._writing and self._behind > but:
            writing, buffer = self._writing.popleft()
            self._behind -= len(buffer)
            if len(buffer) == self.file.segment_bytes:
                self._spare.append(buffer)
            writing.result()
