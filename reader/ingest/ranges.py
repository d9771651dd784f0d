"""Inputs of ingest: a stream of bytes; or the files of a source, or one machine's share of them, read one by one.

The rows of the files follow each other. The first rows of the first file decide for every share whether columns have
names, whether labels are strings, and whether rows have weights.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import MAGIC_BYTES, decompressed, is_compressed
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.sniff import PEEK_BYTES
from streamsvm.reader.parsers.text_window import BYTE_ORDER_MARK
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.reader.sources.fetch import (
    LinesOfRange,
    Share,
    Stripe,
    check_unchanged,
    deal,
    read_bytes,
    read_range,
    read_stripes,
)
from streamsvm.reader.sources.files import SourceFile


class InputRange(NamedTuple):
    """A file, or a range of its lines.

    name    URL or path of the file; None: the input is a stream
    chunks  the decompressed bytes
    offset  returns the number of bytes in the file before `chunks`, whose line numbers are then unknown; None: 0 bytes
    """

    name: str | None
    chunks: Iterator[bytes]
    offset: Callable[[], int] | None = None

    def placed(self, error: InputError) -> InputError:
        """Name the file in an error, and turn its byte offset in `chunks` into one in the file; return the error."""
        error.file = error.file or self.name
        if self.offset is not None and error.byte is not None:
            error.byte += self.offset()
            error.line = None
        return error


class Input:
    """The bytes of an input. Call `head`, then `settle`, then `files` once.

    taken        bytes read so far, before decompression
    total        bytes to read in all, before decompression; None if unknown
    is_weighted  rows of LIBSVM text have weights, even if the first row of this range has none
    is_several   `files` yields several files or ranges, some of which may have no row
    """

    taken = 0
    total: int | None = None
    is_weighted = is_several = False

    def head(self) -> bytes:
        """Return the first PEEK_BYTES of the decompressed input; `files` yields them again."""
        raise NotImplementedError

    def settle(self, options: InputOptions, _scratch: Path) -> InputOptions:
        """Return the options, whose format is known, with the options that all ranges of the input must share."""
        return options

    def files(self) -> Iterator[InputRange]:
        """Yield each file, or each range of a file."""
        raise NotImplementedError

    def check(self, error: InputError) -> None:
        """Raise InputError source_changed if the file in which this error was found has changed meanwhile."""

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.taken += len(piece)
            yield piece


class StreamInput(Input):
    """An `Input` that is one stream of bytes, in chunks of any size; its total length is unknown."""

    def __init__(self, chunks: Iterable[bytes], limits: InputLimits) -> None:
        self._decoded = decompressed(self._counted(chunks), limits)

    def head(self) -> bytes:
        first = next(self._decoded, b"")
        self._decoded = itertools.chain([first], self._decoded)
        return first[:PEEK_BYTES]

    def files(self) -> Iterator[InputRange]:
        yield InputRange(None, self._decoded)


def first_line(text: Iterator[bytes], most_bytes: int) -> bytes:
    """Return the first line that is not blank, without a byte order mark; it may be cut if it exceeds `most_bytes`."""
    head, begin = b"", 0
    while True:
        end = head.find(b"\n", begin) + 1
        if not end and len(head) - begin <= most_bytes and (piece := next(text, None)) is not None:
            head += piece
            continue
        line = head[begin : end or len(head)]
        begin += len(line)
        if not line or line.removeprefix(BYTE_ORDER_MARK).strip():
            return line.removeprefix(BYTE_ORDER_MARK)


# Formats in which a row is a line, except that a document in quotes may span several lines.
_LINES = {"libsvm", "csv", "tsv", "text"}
_HEAD_BYTES = 256 << 10  # bytes of a file's beginning that are read at once


class SourceInput(Input):
    """An `Input` made of all given files, or of a machine's share of them."""

    def __init__(self, files: Sequence[SourceFile], limits: InputLimits, share: Share = Share()) -> None:  # noqa: B008
        self._files = [file for file in files if file.size]
        self._limits = limits
        self._share = share
        self._stripes: list[Stripe] = []
        self._header = b""
        self._decoded = 0
        self._head: bytes | None = None

    def head(self) -> bytes:
        """Return the first PEEK_BYTES of the first of all files, the same bytes in every share."""
        if self._head is None:
            self._head = b""
            if self._files:
                with _naming(self._files[0].url), _beginning(self._files[0]) as pieces:
                    self._head = next(decompressed(pieces, self._limits), b"")[:PEEK_BYTES]
        return self._head

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """Choose the stripes of this share; return the options with the properties that the first rows decide."""
        # Only large files without compression are cut; others are a stripe each.
        may_cut = self._share.of > 1 and options.format in _LINES and options.text_column is None
        large = [file for file in self._files if file.size > self._share.stripe_bytes] if may_cut else []
        cut = {file for file in large if not is_compressed(read_bytes(file, 0, min(file.size, MAGIC_BYTES)))}
        self._stripes = deal(self._files, self._share, whole=set(self._files) - cut)
        self.total = sum(stripe.stop - stripe.start for stripe in self._stripes)
        self.is_several = len(self._stripes) > 1
        is_all = len(self._files) == len(self._stripes) == 1 and self._stripes[0].is_whole
        if is_all or options.format not in _LINES:
            return options
        head, names, parser = self.head(), LabelNames(options.label_type), None
        whole = head[: head.rfind(b"\n") + 1] or head
        with suppress(InputError):  # faults are found again when the rows are read
            parser = open_parser(options, self._limits, names, 1, scratch)
            with closing(iter(parser.parse_chunks([whole]))) as rows:  # type: ignore[type-var]
                next(rows, None)
        if parser is not None:
            self._header = first_line(iter([whole]), len(whole)) if parser.has_names else b""
            self.is_weighted = parser.is_weighted
        # With several files, each file may have its own line of column names, or none.
        if options.format in ("csv", "tsv") and len(self._files) == 1:
            options = replace(options, header="yes" if self._header else "no")
        if options.format != "libsvm" and names.type != "auto":
            options = replace(options, label_type=names.type)
        return options

    def files(self) -> Iterator[InputRange]:
        """Yield each whole file of the share, and each part of a file, preceded by its line of column names, if any.

        Raises InputError decompressed_too_large.
        """
        for stripe, pieces in read_stripes(self._stripes):
            text = self._counted(pieces)
            if isinstance(pieces, LinesOfRange) and stripe.start:
                header = b""
                if self._header:
                    with _naming(stripe.file.url), _beginning(stripe.file) as begin:
                        header = first_line(iter(begin), self._limits.max_line_bytes)
                lines = self._bounded(itertools.chain([header], text))
                yield InputRange(stripe.file.url, lines, offset_of(pieces, len(header)))
            else:
                whole = decompressed(text, self._limits) if stripe.is_whole else text
                yield InputRange(stripe.file.url, self._bounded(whole))

    def _bounded(self, text: Iterable[bytes]) -> Iterator[bytes]:
        for piece in text:
            self._decoded += len(piece)
            if self._decoded > self._limits.max_bytes:
                raise InputError("decompressed_too_large", f"there are over {self._limits.max_bytes} bytes of text")
            yield piece

    def check(self, error: InputError) -> None:
        for file in self._files:
            if file.url == error.file and not error.code.startswith("source_"):
                check_unchanged(file)


def _beginning(file: SourceFile) -> closing[Generator[bytes, None, None]]:
    """The bytes of a file, of which only the first are read."""
    return closing(read_range(file, threads=1, piece_bytes=_HEAD_BYTES))


def offset_of(lines: LinesOfRange, header: int) -> Callable[[], int]:
    """Return the `InputRange.offset` of these lines behind a line of column names of `header` bytes."""
    return lambda: lines.first - header


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """If the block raises an InputError that names no file, set its `file` to this file."""
    try:
        yield
    except InputError as error:
        error.file = error.file or file
        raise
