"""Decompresses gzip, bzip2, xz or zstd input, or a zip archive of one file, of unknown origin in bounded memory."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.unzip import HEAD_BYTES as ARCHIVE_BYTES
from streamsvm.reader.ingest.unzip import LOCAL, ZipStream, is_archive
from streamsvm.reader.limits import Limits
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.files.zstd_stream import FRAME_MAGIC, ZstdStream, is_frame
from streamsvm.storage.machine.abandoned_work import check_wanted

PIECE_BYTES = 64 << 10  # given to a decoder at once
STEP_BYTES = 1 << 20  # taken from a decoder at once
RATIO_FROM_BYTES = 64 << 20
MAGIC_BYTES = 6
XZ_MEMORY_BYTES = 80 << 20  # `xz -9` asks for 65 MiB, and uses as much of it as the text is long


class Stream(Protocol):
    """Decodes one member; the interface of bz2.BZ2Decompressor."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class GzipStream:
    """zlib's gzip decoder with the interface of bz2.BZ2Decompressor."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        decoded = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        # If the output has the full length, more may follow even when all input was taken.
        self.needs_input = not self._decoder.unconsumed_tail and len(decoded) < max_length
        return decoded


@dataclass(frozen=True)
class Format:
    """A kind of compression: the first bytes of its members, and the class that decodes one."""

    name: str
    magic: bytes
    stream: Callable[[], Stream]

    def starts(self, head: bytes) -> bool:
        return head.startswith(self.magic) or (self.magic == FRAME_MAGIC and is_frame(head))


FORMATS = (
    Format("gzip", b"\x1f\x8b", GzipStream),
    Format("bzip2", b"BZh", bz2.BZ2Decompressor),
    Format("xz", b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)),
    Format("zstd", FRAME_MAGIC, ZstdStream),
)


ZIP = Format("zip", LOCAL, ZipStream)


class _Source:
    """Reads bytes in pieces of at most PIECE_BYTES; pieces can be peeked at and given back."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = memoryview(b"")
        self._returned = b""
        self.taken = 0  # bytes taken from the chunks

    def read(self) -> bytes:
        """The next piece; empty only at the end."""
        if self._returned:
            piece, self._returned = self._returned, b""
            return piece
        while not len(self._chunk):
            following = next(self._chunks, None)
            if following is None:
                return b""
            self._chunk = memoryview(following)
        piece, self._chunk = bytes(self._chunk[:PIECE_BYTES]), self._chunk[PIECE_BYTES:]
        self.taken += len(piece)
        return piece

    def give_back(self, data: bytes) -> None:
        self._returned = data + self._returned

    def peek(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end; `read` gives them again."""
        head = b""
        while len(head) < count:
            piece = self.read()
            if not piece:
                break
            head += piece
        self.give_back(head)
        return head[:count]


def decompressed(chunks: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the input, decompressed once; plain data passes through.

    The pieces are not empty and have at most 1 MiB. InputError compressed_truncated, compressed_corrupt, trailing_data
    or decompressed_too_large.
    """
    source = _Source(chunks)
    head = source.peek(ARCHIVE_BYTES)
    kind = _kind(head)
    if kind is None and head and any(kind.magic.startswith(head) for kind in FORMATS):
        raise InputError("compressed_truncated", "the input ends inside the first bytes of a compressed file")
    pieces = iter(source.read, b"") if kind is None else _members(source, kind)
    decoded = 0
    for piece in pieces:
        check_wanted()
        decoded += len(piece)
        check_size(decoded, source.taken, limits)
        if piece:
            yield piece


def is_compressed(head: bytes) -> bool:
    """Whether an input that begins with `head` is compressed."""
    return _kind(head) is not None


def _kind(head: bytes) -> Format | None:
    return ZIP if is_archive(head) else next((kind for kind in FORMATS if kind.starts(head)), None)


def check_size(decoded: int, taken: int, limits: Limits) -> None:
    """InputError decompressed_too_large if `taken` bytes decoded to more bytes than the limits allow."""
    if decoded > limits.max_bytes:
        raise InputError("decompressed_too_large", f"the input has more than {limits.max_bytes} bytes of text")
    if decoded > RATIO_FROM_BYTES and decoded > limits.max_ratio * taken:
        raise InputError(
            "decompressed_too_large", f"the input decompresses to over {limits.max_ratio:g} times its size"
        )


def _members(source: _Source, kind: Format) -> Iterator[bytes]:
    if kind is ZIP:
        yield from _member(source, ZIP)
        while source.read():  # the directory behind the one file
            pass
    head = source.peek(MAGIC_BYTES)
    while head:
        if not kind.starts(head):
            if kind.magic.startswith(head):
                raise InputError("compressed_truncated", f"the input ends inside the header of a {kind.name} member")
            raise InputError("trailing_data", f"other bytes follow the {kind.name} data")
        yield from _member(source, kind)
        head = source.peek(MAGIC_BYTES)


def _member(source: _Source, kind: Format) -> Iterator[bytes]:
    stream = kind.stream()
    while not stream.eof:
        piece = b""
        if stream.needs_input:
            piece = source.read()
            if not piece:
                raise InputError("compressed_truncated", f"the input ends inside the {kind.name} data")
        try:
            decoded = stream.decompress(piece, STEP_BYTES)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, CorruptData) as error:
            raise InputError("compressed_corrupt", f"the {kind.name} data does not decompress: {error}") from error
        yield decoded
    source.give_back(stream.unused_data)
