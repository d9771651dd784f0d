"""Reads ranges of files in bounded memory, several pieces at a time, and cuts ranges of texts at line ends.

A file is looked at again after the last piece of a range: if it has changed, the error is `source_changed`.

A line belongs to the range [start, stop) in which its first byte lies. With

    border(0) = 0,    border(x) = behind the first line feed at x - 1 or later, or the end of the file

the lines of a range are the bytes [border(start), border(stop)). Each line is in exactly one of consecutive ranges.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from itertools import chain, islice
from typing import NamedTuple

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.pieces import check_unchanged, read_bytes
from streamsvm.reader.sources.stripes import Stripe
from streamsvm.storage.machine.pools import pool_of

PIECE_BYTES = 8 << 20
THREADS = 4
# Read behind a stripe, where its last line ends: enough for most texts.
_MORE_BYTES = 64 << 10
# Longer than any line that a parser takes: without it, all machines would search a file without line feeds to its end.
LONGEST_LINE = 1 << 25


class _Span(NamedTuple):
    """Bytes to read at once; checks: they end a range, so that the file is looked at again."""

    file: SourceFile
    start: int
    stop: int
    checks: bool


class LinesOfRange:
    """Iterates once, in pieces, over the lines that begin in [start, stop). InputError line_too_long.

    pieces  the bytes of the file from offset max(start - 1, 0) on; read no further than needed
    first   border(start), the offset of the first line of the range, once the first piece has been read
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
) -> Iterator[bytes]:
    """Yield bytes [start, stop) of a file, all by default, in pieces; about `threads` + 2 pieces are in memory."""
    stop = file.size if stop is None else stop
    with closing(_fetched(_spans(file, start, stop, piece_bytes), threads)) as fetched:
        yield from fetched


def read_stripes(
    stripes: Iterable[Stripe], *, threads: int = THREADS, piece_bytes: int = PIECE_BYTES
) -> Iterator[tuple[Stripe, Iterable[bytes]]]:
    """Yield each stripe with its pieces: all bytes of a whole file, else the lines that begin in the stripe.

    Pieces of the next stripes are read ahead. Take a stripe's pieces before the next stripe: the rest is dropped then.
    """
    stripes = list(stripes)
    spans = chain.from_iterable(_spans_of(stripe, piece_bytes) for stripe in stripes)
    with closing(_fetched(spans, threads)) as fetched:
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
    """The range of bytes that holds the stripe's lines, unless the last line is long."""
    return max(stripe.start - 1, 0), min(stripe.stop + _MORE_BYTES, stripe.file.size)


def _more(file: SourceFile, start: int) -> Iterator[bytes]:
    while start < file.size:
        stop = min(start + 16 * _MORE_BYTES, file.size)
        yield read_bytes(file, start, stop)
        start = stop


def _spans_of(stripe: Stripe, piece_bytes: int) -> Iterator[_Span]:
    return _spans(stripe.file, *_bounds(stripe), piece_bytes)


def _spans(file: SourceFile, start: int, stop: int, piece_bytes: int) -> Iterator[_Span]:
    for begin in range(start, stop, piece_bytes):
        end = min(begin + piece_bytes, stop)
        yield _Span(file, begin, end, checks=end == stop)


def _fetch(span: _Span) -> bytes:
    data = read_bytes(span.file, span.start, span.stop)
    if span.checks:
        check_unchanged(span.file)
    return data


def _fetched(spans: Iterable[_Span], threads: int) -> Generator[bytes, None, None]:
    """Yield the bytes of the spans, in their order."""
    with pool_of(threads, "fetch") as pool:
        under_way: deque[Future[bytes]] = deque()
        for span in spans:
            under_way.append(pool.submit(_fetch, span))
            if len(under_way) > threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
