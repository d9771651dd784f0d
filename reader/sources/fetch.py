"""Reads ranges of files in bounded memory, several pieces at a time.

A file is looked at again after the last piece of a range: if it has changed, the error is `source_changed`.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice
from typing import NamedTuple

from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.lines import LinesOfRange
from streamsvm.reader.sources.pieces import check_unchanged, read_bytes
from streamsvm.reader.sources.stripes import Stripe

PIECE_BYTES = 8 << 20
THREADS = 4
# Read behind a stripe, where its last line ends: enough for most texts.
_MORE_BYTES = 64 << 10


class _Span(NamedTuple):
    """Bytes to read at once; checks: they end a range, so that the file is looked at again."""

    file: SourceFile
    start: int
    stop: int
    checks: bool


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
    with ThreadPoolExecutor(threads, "fetch") as pool:
        under_way: deque[Future[bytes]] = deque()
        try:
            for span in spans:
                under_way.append(pool.submit(_fetch, span))
                if len(under_way) > threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
