"""Decompresses gzip, bzip2, xz, lzma or zstd input, or a zip archive, of unknown origin in bounded memory."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.parsers.sniff import PEEK_BYTES, refuse_unread
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.files.codec import FRAME_MAGIC, ZstdStream, is_frame

_LOCAL, _CENTRAL, _EMPTY = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_FIXED, _STORED, _DEFLATED, _ENCRYPTED, _SIZE_FOLLOWS = 30, 0, 8, 1, 8
_WORKBOOKS = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetype")
_DESCRIPTORS = (0, 12, 16, 20, 24)  # bytes between the data of a file and what follows
# Names of folders, and of files that file managers add to archives.
_BESIDE = re.compile(rb"(^|[/\\])(__MACOSX[/\\]|\._[^/\\]*$|\.DS_Store$|Thumbs\.db$|desktop\.ini$|$)", re.IGNORECASE)
_MOST_BESIDE, _PIECE_BYTES = 64 << 20, 64 << 10


def unzipped(source: "PeekableBytes", inflated: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the data of the one file in a zip archive; skip folders, and files that file managers add (`_BESIDE`).

    inflated  decodes the deflated data that `source` returns next, and yields the decoded bytes
    Raises InputError several_files, unknown_format, compressed_corrupt or compressed_truncated.
    """
    found, passed = b"", 0
    while source.peek(4) == _LOCAL:
        head = source.take(_FIXED)
        name = source.take(_number(head, 26))
        source.take(_number(head, 28))
        if not found and name.startswith(_WORKBOOKS):
            hint = 'save its sheet as CSV: pandas.read_excel("FILE").to_csv("FILE.csv", index=False)'
            raise InputError("unknown_format", "this is a workbook, as Excel writes it", hint=hint, byte=0)
        is_beside, crc = bool(_BESIDE.search(name)), 0
        several = InputError(
            "several_files",
            f"the archive has several files: {' and '.join(excerpt(each) for each in (found, name) if each)}",
            hint="unpack it, and give one: unzip FILE",
        )
        if found and not is_beside:
            raise several
        found = found if is_beside else name
        for piece in _data(source, head, name.endswith((b"/", b"\\")), inflated):
            crc = zlib.crc32(piece, crc)
            if not is_beside:
                yield piece
            elif (passed := passed + len(piece)) > _MOST_BESIDE:
                raise several
        _check_end(source, head, crc)
    if not found:
        raise InputError(
            "unknown_format", "this is a zip archive without a file", hint="pack the file again: zip FILE.zip FILE"
        )
    while source.read():  # skip the archive's directory after the files
        pass


def _data(
    source: "PeekableBytes", head: bytes, is_folder: bool, inflated: Callable[[], Iterator[bytes]]
) -> Iterator[bytes]:
    """Yield the decompressed data of the archive's file whose local header is `head`. Raises InputError."""
    method, flags = _number(head, 8), head[6]
    is_known = method == _DEFLATED or (method == _STORED and (is_folder or not flags & _SIZE_FOLLOWS))
    if flags & _ENCRYPTED or not is_known:
        raise InputError("compressed_corrupt", "a file in the archive is encrypted, or packed in a rare way: unpack it")
    if method == _DEFLATED:
        yield from inflated()
        return
    left = int.from_bytes(head[18:22], "little")
    while left:
        piece = source.take(min(left, _PIECE_BYTES))
        left -= len(piece)
        yield piece


def _check_end(source: "PeekableBytes", head: bytes, crc: int) -> None:
    """Skip the data descriptor, if any, that follows a file's data. Raises InputError unless its checksum is `crc`."""
    end = source.peek(_DESCRIPTORS[-1] + 4)
    length = next((n for n in _DESCRIPTORS if end[n : n + 4] in (_LOCAL, _CENTRAL)), None)
    if length is None:
        if len(end) < _DESCRIPTORS[-1] + 4:
            raise InputError("compressed_truncated", "the input ends behind a file in the archive")
        raise InputError("compressed_corrupt", "no entry follows the file in the archive")
    # A signature may stand before the checksum of a descriptor.
    stated = source.take(length)[length % 8 == 0 and 4 :][:4] if length else head[14:18]
    if int.from_bytes(stated, "little") != crc:
        raise InputError("compressed_corrupt", "the checksum of the file in the archive is another")


def _number(head: bytes, place: int) -> int:
    return int.from_bytes(head[place : place + 2], "little")


PIECE_BYTES = 64 << 10  # most compressed bytes passed to a decoder at once
STEP_BYTES = 1 << 20  # most decoded bytes that a decoder returns at once
HEAD_BYTES = 512  # enough to distinguish a zip archive of files from npz
MAGIC_BYTES = 6
XZ_MEMORY_BYTES = 80 << 20  # limit of the decoder: data of `xz -9` needs 65 MiB, of which a short text uses less


class DeflateStream:
    """zlib's decoder with the interface of bz2.BZ2Decompressor; wbits: 31 for gzip, -15 for data without a header."""

    def __init__(self, wbits: int) -> None:
        self._decoder = zlib.decompressobj(wbits)
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
    """A kind of compression.

    magic   the first bytes of its members
    stream  makes the decoder of one member, with the interface of bz2.BZ2Decompressor
    zeros   zero bytes may follow a member, in a multiple of this number; 0: no zero byte may
    """

    name: str
    magic: bytes
    stream: Callable[[], Any]
    zeros: int = 0

    def starts(self, head: bytes) -> bool:
        return head.startswith(self.magic) or (self.magic == FRAME_MAGIC and is_frame(head))


_lzma = partial(lzma.LZMADecompressor, memlimit=XZ_MEMORY_BYTES)
# lzma's one member has no magic number: the bytes are its usual properties, and a dictionary size of n * 64 KiB.
LZMA = Format("lzma", b"]\0\0", partial(_lzma, lzma.FORMAT_ALONE))
ZIP = Format("zip", b"PK", partial(DeflateStream, -15))
FORMATS = (
    Format("gzip", b"\x1f\x8b", partial(DeflateStream, 31), zeros=1),
    Format("bzip2", b"BZh", bz2.BZ2Decompressor),
    Format("xz", b"\xfd7zXZ\x00", partial(_lzma, lzma.FORMAT_XZ), zeros=4),
    Format("zstd", FRAME_MAGIC, ZstdStream),
    LZMA,
)


class PeekableBytes:
    """Reads a stream of bytes in pieces; the caller can look at bytes without taking them, and push bytes back."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk, self._begin = b"", 0
        self._returned = b""
        self.taken = 0  # bytes taken from the chunks

    def read(self, most: int = PIECE_BYTES) -> bytes:
        """Return the next piece: all bytes that were pushed back, else at most `most` bytes; b"" only at the end."""
        if self._returned:
            piece, self._returned = self._returned, b""
            return piece
        while self._begin == len(self._chunk):
            following = next(self._chunks, None)
            if following is None:
                return b""
            self._chunk, self._begin = following, 0
        piece = bytes(self._chunk[self._begin : self._begin + most])  # a whole chunk of bytes is not copied
        self._begin += len(piece)
        self.taken += len(piece)
        return piece

    def give_back(self, data: bytes) -> None:
        self._returned = data + self._returned

    def peek(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end of the stream; the next `read` returns them again."""
        pieces, size = list[bytes](), 0
        while size < count and (piece := self.read()):
            pieces.append(piece)
            size += len(piece)
        self.give_back(b"".join(pieces))
        return self._returned[:count]

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes and go past them. Raises InputError compressed_truncated if fewer follow."""
        data = self.peek(count)
        if len(data) < count:
            raise InputError("compressed_truncated", "the input ends inside the compressed data")
        self._returned = self._returned[count:]
        return data


def decompressed(chunks: Iterable[bytes], limits: InputLimits) -> Iterator[bytes]:
    """Yield the bytes of an input, decompressed if they are compressed. Every input is read through this function.

    The first piece has at least PEEK_BYTES, or all bytes; no piece is empty or over 1 MiB. Raises InputError
    compressed_truncated, compressed_corrupt, trailing_data, several_files or decompressed_too_large; unknown_format
    for a format that no parser reads.
    """
    source = PeekableBytes(chunks)
    head = source.peek(HEAD_BYTES)
    kind = _kind(head)
    if kind is None and head and any(kind.magic.startswith(head) for kind in FORMATS):
        raise InputError("compressed_truncated", "the input ends inside the first bytes of a compressed file")
    text = source if kind is None else PeekableBytes(_members(source, kind))
    refuse_unread(text.peek(PEEK_BYTES))
    decoded = 0
    for piece in iter(partial(text.read, STEP_BYTES), b""):
        decoded += len(piece)
        limits.check_size(decoded, source.taken)
        yield piece


def is_compressed(head: bytes) -> bool:
    """Whether an input that begins with `head` is compressed."""
    return _kind(head) is not None


def _kind(head: bytes) -> Format | None:
    is_npz = head[_FIXED : _FIXED + _number(head, 26)].endswith(b".npy")
    if head.startswith(_EMPTY) or (head.startswith(_LOCAL) and not is_npz):
        return ZIP
    return next((kind for kind in FORMATS if kind.starts(head)), None)


def _members(source: PeekableBytes, kind: Format) -> Iterator[bytes]:
    if kind is ZIP:
        yield from unzipped(source, partial(_member, source, ZIP))
        return
    while source.peek(1):
        yield from _member(source, kind)
        _check_behind(source, kind)


def _check_behind(source: PeekableBytes, kind: Format) -> None:
    """Skip zero bytes after a member. Raises InputError unless another member or the end of the input follows."""
    zeros = 0
    while kind.zeros and (piece := source.read()):
        rest = piece.lstrip(b"\0")
        zeros += len(piece) - len(rest)
        if rest:
            source.give_back(rest)
            break
    head = source.peek(MAGIC_BYTES)
    if 0 < len(head) < len(kind.magic) and kind.magic.startswith(head):
        raise InputError("compressed_truncated", f"the input ends inside the header of a {kind.name} member")
    if (kind.zeros and zeros % kind.zeros) or (head and (kind is LZMA or not kind.starts(head))):
        raise InputError("trailing_data", f"other bytes follow the {kind.name} data")


def _member(source: PeekableBytes, kind: Format) -> Iterator[bytes]:
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
