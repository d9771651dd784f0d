"""Reads ranges of files, by default past the page cache: its pages count as memory, and filling them takes time."""

import errno
import mmap
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

_UNIT = mmap.PAGESIZE  # bytes: O_DIRECT reads start and end at multiples of it

# Buffers that are free for the next read: allocating a buffer for each read would take as long as the read.
_spare: deque[mmap.mmap] = deque(maxlen=32)


class Pages(Enum):
    """How a read uses the page cache. PASSED: not at all. DROPPED: it drops the range afterwards. KEPT: it stays."""

    PASSED, DROPPED, KEPT = range(3)


class FileRange:
    """A range of a file, in buffer[start:start + size]. Read it in one `with ... as data`, which frees the buffer."""

    def __init__(self, buffer: mmap.mmap, start: int, size: int) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)[start : start + size]

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, *_: object) -> None:
        self._view.release()
        _spare.append(self._buffer)


def read_range(path: Path, offset: int, size: int, pages: Pages = Pages.PASSED) -> FileRange:
    """Read `size` bytes of a file from `offset` on, fewer if the file ends before. Raises OSError if a read fails."""
    start = offset - offset % _UNIT
    room = -(-(offset + size) // _UNIT) * _UNIT - start
    buffer = _memory(room)
    with memoryview(buffer)[:room] as view:
        got = _read_direct(path, view, start) if pages is Pages.PASSED else _read_cached(path, view, start, pages)
    return FileRange(buffer, offset - start, max(0, min(size, got - (offset - start))))


def _memory(room: int) -> mmap.mmap:
    while _spare:
        try:
            buffer = _spare.pop()
        except IndexError:  # another thread took it
            break
        if len(buffer) >= room:
            return buffer
    return mmap.mmap(-1, 1 << (room - 1).bit_length())


def _read_direct(path: Path, view: memoryview, start: int) -> int:
    try:
        with _open(path, os.O_DIRECT) as file:
            return os.preadv(file, [view], start)
    except OSError as error:
        # EINVAL: the file system, for example one in memory, does not support O_DIRECT.
        if error.errno != errno.EINVAL:
            raise
    return _read_cached(path, view, start, Pages.DROPPED)


def _read_cached(path: Path, view: memoryview, start: int, pages: Pages) -> int:
    with _open(path) as file:
        # RANDOM turns readahead off: pages read beyond the range would not be dropped below.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        got = os.preadv(file, [view], start)
        if pages is Pages.DROPPED:
            os.posix_fadvise(file, start, len(view), os.POSIX_FADV_DONTNEED)
    return got


@contextmanager
def _open(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file as a file descriptor for the block: making a file object would take longer than reading a piece."""
    file = os.open(path, os.O_RDONLY | flags)
    try:
        yield file
    finally:
        os.close(file)
