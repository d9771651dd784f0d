"""Deals ranges of a source to machines, reads them in bounded memory, and cuts ranges of texts at line ends.

Files are cut into stripes, which machines get in turn, so that each machine has rows from all regions of a sorted file.
After the last piece of a range the file's version is checked again; if it has changed, the error is `source_changed`.

A line belongs to the range [start, stop) in which its first byte lies. With

    border(0) = 0,    border(x) = the offset after the first line feed at x - 1 or later, else the end of the file

the lines of a range are the bytes [border(start), border(stop)). Each line is in exactly one of consecutive ranges.
"""

import io
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import IO, Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.files import LOCAL, PAUSES, SourceFile, located, persistently, store_of
from streamsvm.storage.machine.thread_work import pool_of, work_ahead

_BUFFER_BYTES = 1 << 20


def read_bytes(file: SourceFile, start: int, stop: int, sleep: Callable[[float], None] = time.sleep) -> bytes:
    """Read bytes [start, stop) of a file; retry if its store is unavailable. Raises InputError if it cannot be read."""
    location = located(file.url)
    path, store = location.path, store_of(location)
    pieces: list[bytes] = []
    check = partial(check_unchanged, file, persists=False)
    while start < stop:
        piece = persistently(partial(store.read, path, start, stop), file.url, failed=check, sleep=sleep)
        if not 0 < len(piece) <= stop - start:
            check_unchanged(file)
            raise InputError("source_unavailable", f"{file.url}: the store gave other bytes than were asked for")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_unchanged(file: SourceFile, *, persists: bool = True) -> None:
    """Raise InputError source_changed if a file has changed or is gone since it was listed.

    persists  retry while the store is unavailable, and raise its other errors, too; False: ignore these errors
    """
    location = located(file.url)
    look = partial(store_of(location).look, location.path)
    try:
        seen = persistently(look, file.url, PAUSES if persists else ())
    except InputError as error:
        if error.code == "source_not_found":
            raise InputError("source_changed", f"{file.url} was removed while it was read") from None
        if persists:
            raise
        return
    if seen[1:] != (file.size, file.version):
        raise InputError("source_changed", f"{file.url} changed while it was read")


def open_seekable(file: SourceFile) -> IO[bytes]:
    """Open a file for reading and seeking. Raises OSError for a file of this machine, InputError for one in a store."""
    location = located(file.url)
    if location.scheme == LOCAL:
        return open(location.path, "rb")  # noqa: PTH123 - the caller closes it
    return io.BufferedReader(_Ranges(file), _BUFFER_BYTES)


class _Ranges(io.RawIOBase):
    """A file in an object store as a raw stream, which reads ranges of it."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self._file, self._place = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._file.size}[whence]
        self._place = max(0, begin + place)
        return self._place

    def readinto(self, buffer: Any) -> int:
        stop = min(self._place + len(buffer), self._file.size)
        if stop <= self._place:
            return 0
        data = read_bytes(self._file, self._place, stop)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


STRIPE_BYTES = 64 << 20
PIECE_BYTES = 8 << 20
THREADS = 4
# Bytes read beyond the end of a stripe, in which the last line of most texts ends.
_MORE_BYTES = 64 << 10
# Exceeds the longest line that a parser takes. Without it, every machine would search a file without line feeds.
LONGEST_LINE = 1 << 25


@dataclass(frozen=True)
class Share:
    """The part of a source that machine `number` reads, out of `of` machines, 0 <= number < of."""

    number: int = 0
    of: int = 1
    stripe_bytes: int = STRIPE_BYTES

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of or self.stripe_bytes < 1:
            raise ValueError("a share is one of 0 to of - 1, and stripes have at least a byte")


@dataclass(frozen=True)
class Stripe:
    """Bytes [start, stop) of a file; of a text that is cut, the lines that begin in these bytes."""

    file: SourceFile
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether the stripe is the whole file."""
        return self.start == 0 and self.stop == self.file.size


def deal(files: Sequence[SourceFile], share: Share, whole: Collection[SourceFile] = ()) -> list[Stripe]:
    """Return the stripes of a share, in the order of the files, with adjacent stripes joined.

    Files in `whole` are not cut. Each byte of each file is in exactly one of the shares 0 to `of` - 1.
    """
    stripes = [stripe for file in files for stripe in _cut(file, file.size if file in whole else share.stripe_bytes)]
    dealt: list[Stripe] = []
    for stripe in stripes[share.number :: share.of]:
        last = dealt[-1] if dealt else None
        if last is not None and last.file == stripe.file and last.stop == stripe.start:
            dealt[-1] = Stripe(stripe.file, last.start, stripe.stop)
        else:
            dealt.append(stripe)
    return dealt


def _cut(file: SourceFile, size: int) -> Iterator[Stripe]:
    for start in range(0, file.size, max(size, 1)):
        yield Stripe(file, start, min(start + size, file.size))


class LinesOfRange:
    """Yields, once and in pieces, the lines of a file that begin in [start, stop). Raises InputError line_too_long.

    pieces  the bytes of the file from offset max(start - 1, 0) on; no more of them are taken than needed
    first   border(start), the offset of the first line of the range; set when the first piece is yielded
    """

    def __init__(self, pieces: Iterable[bytes], start: int, stop: int) -> None:
        self.first = start
        self._start, self._stop = start, stop
        self._lines = self._cut(pieces, max(start - 1, 0))

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def _cut(self, pieces: Iterable[bytes], place: int) -> Iterator[bytes]:
        searched, stop = 0, self._stop
        is_inside = self._start == 0
        for piece in pieces:
            first, last = 0, None
            if not is_inside:
                first = piece.find(b"\n", 0, max(stop - 1 - place, 0)) + 1
                is_inside = first > 0
                if not is_inside and place + len(piece) >= stop - 1:
                    return
                self.first = place + first
            if is_inside and place + len(piece) >= stop:
                last = piece.find(b"\n", max(first, stop - 1 - place)) + 1 or None
            if is_inside:
                yield piece if first == 0 and last is None else piece[first:last]
            if last is not None:
                return
            place += len(piece)
            searched = 0 if is_inside and place < stop else searched + len(piece)
            if searched > LONGEST_LINE:
                raise InputError("line_too_long", f"no line ends in {searched} bytes", byte=place - searched)


def read_range(
    file: SourceFile, start: int = 0, stop: int | None = None, *, threads: int = THREADS, piece_bytes: int = PIECE_BYTES
) -> Generator[bytes, None, None]:
    """Yield bytes [start, stop) of a file, by default all, in pieces; holds about `threads` + 2 pieces in memory."""
    stop = file.size if stop is None else stop
    yield from _fetched(_reads(file, start, stop, piece_bytes), threads)


def read_stripes(
    stripes: Iterable[Stripe], *, threads: int = THREADS, piece_bytes: int = PIECE_BYTES
) -> Iterator[tuple[Stripe, Iterable[bytes]]]:
    """Yield each stripe with its pieces: all bytes of a whole file, else the lines that begin in the stripe.

    Threads read pieces of further stripes ahead. Take all pieces of a stripe before the next stripe, which drops them.
    """
    stripes = list(stripes)
    reads = chain.from_iterable(_reads(stripe.file, *_bounds(stripe), piece_bytes) for stripe in stripes)
    with closing(_fetched(reads, threads)) as fetched:
        for stripe in stripes:
            begin, stop = _bounds(stripe)
            pieces = islice(fetched, len(range(begin, stop, piece_bytes)))
            if stripe.is_whole:
                yield stripe, pieces
            else:
                further = chain(pieces, _more(stripe.file, stop))
                yield stripe, LinesOfRange(further, stripe.start, stripe.stop)
            deque(pieces, maxlen=0)


def _bounds(stripe: Stripe) -> tuple[int, int]:
    """Return the range of bytes (start, stop) that contains the stripe's lines, unless the last line is very long."""
    return max(stripe.start - 1, 0), min(stripe.stop + _MORE_BYTES, stripe.file.size)


def _more(file: SourceFile, start: int) -> Iterator[bytes]:
    for begin in range(start, file.size, 16 * _MORE_BYTES):
        yield read_bytes(file, begin, min(begin + 16 * _MORE_BYTES, file.size))


def _reads(file: SourceFile, start: int, stop: int, piece_bytes: int) -> Iterator[Callable[[], bytes]]:
    """Yield functions that read bytes [start, stop) of a file, a piece each; the last one checks the file's version."""
    for begin in range(start, stop, piece_bytes):
        end = min(begin + piece_bytes, stop)
        yield partial(_fetch, file, begin, end, checks=end == stop)


def _fetch(file: SourceFile, start: int, stop: int, checks: bool) -> bytes:
    data = read_bytes(file, start, stop)
    if checks:
        check_unchanged(file)
    return data


def _fetched(reads: Iterable[Callable[[], bytes]], threads: int) -> Generator[bytes, None, None]:
    """Yield the bytes of each read, in order; `threads` threads make up to `threads` reads ahead."""
    with pool_of(threads, "fetch") as pool:
        yield from work_ahead(reads, pool, threads)
