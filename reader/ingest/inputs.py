"""What is read in: one stream of bytes, or files of a source, see `parts`."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import PEEK_BYTES


class FilePart(NamedTuple):
    """A file, or some lines of one.

    name    of the file
    chunks  its text, or rows, decompressed
    moved   how many bytes further back than in `chunks` a place is in the file, whose lines nobody knows; None: 0
    """

    name: str
    chunks: Iterator[bytes]
    moved: Callable[[], int] | None = None

    def told(self, error: InputError) -> InputError:
        """A fault at a place in `chunks`, at its place in the file."""
        error.file = error.file or self.name
        if self.moved is not None and error.byte is not None:
            error.byte += self.moved()
            error.line = None
        return error


class Input(Protocol):
    """`head`, `settle`, then `text` or `files`, once.

    taken        bytes so far, as they are stored
    total        bytes there are to take, None if nobody knows
    is_weighted  rows of LIBSVM text have weights, whatever the first row of this part of them says
    is_several   there are several files
    """

    taken: int
    total: int | None
    is_weighted: bool
    is_several: bool

    def head(self) -> bytes:
        """The first PEEK_BYTES, decompressed."""

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """The options, whose format is known, with what has to be the same in all parts."""

    def text(self) -> Iterator[bytes]:
        """All of it, decompressed, as one text."""

    def files(self) -> Iterator[FilePart]:
        """Each file."""

    def told(self, error: InputError) -> InputError:
        """A fault at a place in `text`, at its place in its file."""


class Stream:
    """An `Input` of which no more is known than that it comes in pieces of any size."""

    total: int | None = None
    is_weighted = is_several = False

    def __init__(self, chunks: Iterable[bytes], limits: Limits) -> None:
        self.taken = 0
        self._chunks = chunks
        self._decoded = decompressed(self._counted(), limits)

    def head(self) -> bytes:
        """The first PEEK_BYTES, which `text` still gives."""
        first: list[bytes] = []
        while sum(map(len, first)) < PEEK_BYTES and (chunk := next(self._decoded, None)) is not None:
            first.append(chunk)
        self._decoded = itertools.chain(first, self._decoded)
        return b"".join(first)[:PEEK_BYTES]

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """The options as they are."""
        return options

    def text(self) -> Iterator[bytes]:
        """All of it."""
        return self._decoded

    def files(self) -> Iterator[FilePart]:
        """There is one, without a name."""
        yield FilePart("", self._decoded)

    def told(self, error: InputError) -> InputError:
        """The fault as it is."""
        return error

    def _counted(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.taken += len(chunk)
            yield chunk
