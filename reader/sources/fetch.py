"""Ranges of files, in bounded memory: several pieces are on their way at a time.

A file that changes while it is read is told (`source_changed`): it is looked at again after the last piece of a range.
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
# Behind a stripe its last line ends, in most texts within so many bytes.
_MORE_BYTES = 64 << 10


class _Span(NamedTuple):
    """Bytes to be read at once; checks: they are the last of their range."""

    file: SourceFile
    start: int
    stop: int
    checks: bool


def read_range(
    file: SourceFile, start: int = 0, stop: int | None = None, *, threads: int = THREADS, piece_bytes: int = PIECE_BYTES
) -> Iterator[bytes]:
    """Bytes [start, stop) of a file, all by default, in pieces; about `threads` + 2 of them are in memory."""
    stop = file.size if stop is None else stop
    with closing(_fetched(_spans(file, start, stop, piece_bytes), threads)) as fetched:
        yield from fetched


def read_stripes(
    stripes: Iterable[Stripe], *, threads: int = THREADS, piece_bytes: int = PIECE_BYTES
) -> Iterator[tuple[Stripe, Iterable[bytes]]]:
    """Each stripe with its pieces: whole files as they are, of others the lines that begin in them.

    Those of stripes to come are on their way, too. What is not taken of a stripe is gone when the next one is.
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
    """The bytes that have its lines, unless the last one is long."""
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
    """In the order of the spans."""
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
