"""Inputs of ingest: one stream of bytes, or files of a source (see `ranges`)."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import PEEK_BYTES


class InputRange(NamedTuple):
    """A file, or a range of its lines.

    name    of the file
    chunks  the decompressed bytes
    offset  gives how many bytes before `chunks` the file has; nobody knows the numbers of its lines then. None: 0
    """

    name: str
    chunks: Iterator[bytes]
    offset: Callable[[], int] | None = None

    def placed(self, error: InputError) -> InputError:
        """Change the place of an error from its place in `chunks` to its place in the file."""
        error.file = error.file or self.name
        if self.offset is not None and error.byte is not None:
            error.byte += self.offset()
            error.line = None
        return error


class Input(Protocol):
    """Call `head`, then `settle`, then `text` or `files` once.

    taken        bytes read so far, as they are stored
    total        bytes to read, None if unknown
    is_weighted  rows of LIBSVM text have weights, even if the first row of this range has none
    is_several   there are several files
    """

    taken: int
    total: int | None
    is_weighted: bool
    is_several: bool

    def head(self) -> bytes:
        """The first PEEK_BYTES, decompressed."""

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """Add to the options, whose format is known, what all ranges of the input must share."""

    def text(self) -> Iterator[bytes]:
        """Yield the whole input, decompressed, as one text."""

    def files(self) -> Iterator[InputRange]:
        """Yield each file."""

    def placed(self, error: InputError) -> InputError:
        """Change the place of an error from its place in `text` to its place in its file."""


class StreamInput:
    """An `Input` that comes in pieces of any size and of unknown length."""

    total: int | None = None
    is_weighted = is_several = False

    def __init__(self, chunks: Iterable[bytes], limits: InputLimits) -> None:
        self.taken = 0
        self._chunks = chunks
        self._decoded = decompressed(self._counted(), limits)

    def head(self) -> bytes:
        """The first PEEK_BYTES; `text` yields them again."""
        first = next(self._decoded, b"")
        self._decoded = itertools.chain([first], self._decoded)
        return first[:PEEK_BYTES]

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """Return the options unchanged."""
        return options

    def text(self) -> Iterator[bytes]:
        """The whole input."""
        return self._decoded

    def files(self) -> Iterator[InputRange]:
        """Yield one file without a name."""
        yield InputRange("", self._decoded)

    def placed(self, error: InputError) -> InputError:
        """Return the error unchanged."""
        return error

    def _counted(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.taken += len(chunk)
            yield chunk
