"""Inputs of ingest: the interface `Input`, and an input that is one stream of bytes. `ranges` has inputs of files."""

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

    name    URL or path of the file
    chunks  the decompressed bytes
    offset  returns the number of bytes in the file before `chunks`, whose line numbers are then unknown; None: 0 bytes
    """

    name: str
    chunks: Iterator[bytes]
    offset: Callable[[], int] | None = None

    def placed(self, error: InputError) -> InputError:
        """Name the file in an error, and turn its byte offset in `chunks` into one in the file; return the error."""
        error.file = error.file or self.name
        if self.offset is not None and error.byte is not None:
            error.byte += self.offset()
            error.line = None
        return error


class Input(Protocol):
    """The bytes of an input. Call `head`, then `settle`, then `text` or `files` once.

    taken        bytes read so far, before decompression
    total        bytes to read in all, before decompression; None if unknown
    is_weighted  rows of LIBSVM text have weights, even if the first row of this range has none
    is_several   the input has several files
    """

    taken: int
    total: int | None
    is_weighted: bool
    is_several: bool

    def head(self) -> bytes:
        """Return the first PEEK_BYTES of the decompressed input."""

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """Return the options, whose format is known, with the options that all ranges of the input must share."""

    def text(self) -> Iterator[bytes]:
        """Yield the whole input, decompressed, as one text."""

    def files(self) -> Iterator[InputRange]:
        """Yield each file, or each range of a file, of the input."""

    def placed(self, error: InputError) -> InputError:
        """Return the error with its position in its file, in place of its position in `text`."""


class StreamInput:
    """An `Input` that is one stream of bytes, in chunks of any size; its total length is unknown."""

    total: int | None = None
    is_weighted = is_several = False

    def __init__(self, chunks: Iterable[bytes], limits: InputLimits) -> None:
        self.taken = 0
        self._chunks = chunks
        self._decoded = decompressed(self._counted(), limits)

    def head(self) -> bytes:
        """Return the first PEEK_BYTES of the decompressed input; `text` yields them again."""
        first = next(self._decoded, b"")
        self._decoded = itertools.chain([first], self._decoded)
        return first[:PEEK_BYTES]

    def settle(self, options: InputOptions, scratch: Path) -> InputOptions:
        """Return the options unchanged."""
        return options

    def text(self) -> Iterator[bytes]:
        """Return an iterator over the whole decompressed input."""
        return self._decoded

    def files(self) -> Iterator[InputRange]:
        """Yield the whole input as one file without a name."""
        yield InputRange("", self._decoded)

    def placed(self, error: InputError) -> InputError:
        """Return the error unchanged."""
        return error

    def _counted(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.taken += len(chunk)
            yield chunk
