"""Parts of files, read past the page cache: it counts as memory too, and costs more time than the reading."""

import errno
import mmap
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNIT = mmap.PAGESIZE  # of what a disk writes to memory by itself

# Memory of parts that have been given back. To get new memory for each would take as long as to read it.
_spare: deque[mmap.mmap] = deque(maxlen=32)


class Part:
    """Bytes of a file, `size` of them from `start` on in a buffer. `with part as data` gives the memory back."""

    def __init__(self, buffer: mmap.mmap, start: int, size: int) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)[start : start + size]

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, *_: object) -> None:
        self._view.release()
        _spare.append(self._buffer)


def read_part(path: Path, offset: int, size: int, is_cached: bool = False) -> Part:
    """The bytes from `offset` on, fewer than `size` if the file ends before. Raises OSError.

    is_cached   the file has just been written and is in the page cache; it is not to stay there
    """
    start = offset - offset % _UNIT
    room = -(-(offset + size) // _UNIT) * _UNIT - start
    buffer = _memory(room)
    with memoryview(buffer)[:room] as view:
        got = _read_cached(path, view, start) if is_cached else _read_direct(path, view, start)
    return Part(buffer, offset - start, max(0, min(size, got - (offset - start))))


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
        # A file system in memory, or one that cannot.
        if error.errno != errno.EINVAL:
            raise
    return _read_cached(path, view, start)


def _read_cached(path: Path, view: memoryview, start: int) -> int:
    with _open(path) as file:
        # No more than the part: what the kernel would read behind it is nobody's to give back.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        got = os.preadv(file, [view], start)
        os.posix_fadvise(file, start, len(view), os.POSIX_FADV_DONTNEED)
    return got


@contextmanager
def _open(path: Path, flags: int = 0) -> Iterator[int]:
    """A file descriptor: what a file object does beside takes longer than to read a piece."""
    file = os.open(path, os.O_RDONLY | flags)
    try:
        yield file
    finally:
        os.close(file)
