"""Unpacks a zip archive with one file while it arrives, and tells it from npz and workbooks."""

import re
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from streamsvm.reader.errors import InputError, excerpt

if TYPE_CHECKING:
    from streamsvm.reader.ingest.decompress import Source

_LOCAL, _CENTRAL, _EMPTY = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_FIXED, _STORED, _DEFLATED, _ENCRYPTED, _SIZE_FOLLOWS = 30, 0, 8, 1, 8
_WORKBOOKS = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetype")
_DESCRIPTORS = (0, 12, 16, 20, 24)  # bytes between the data of a file and what follows
# What file managers put beside the files, and folders.
_BESIDE = re.compile(rb"(^|[/\\])(__MACOSX[/\\]|\._[^/\\]*$|\.DS_Store$|Thumbs\.db$|desktop\.ini$|$)", re.IGNORECASE)
_MOST_BESIDE, _PIECE_BYTES = 64 << 20, 64 << 10


def is_archive(head: bytes) -> bool:
    """Whether an input that begins with `head` is an archive of files, and not npz."""
    if not head.startswith(_LOCAL):
        return head.startswith(_EMPTY)
    return not head[_FIXED : _FIXED + _number(head, 26)].endswith(b".npy")


def unzipped(source: "Source", inflated: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the one file of an archive, without folders and what file managers put beside it.

    inflated  yields what the deflated data that `source` gives next decode to
    InputError several_files, unknown_format, compressed_corrupt or compressed_truncated.
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
        if found and not is_beside:
            raise _several(found, name)
        found = found if is_beside else name
        for piece in _data(source, head, name.endswith((b"/", b"\\")), inflated):
            crc = zlib.crc32(piece, crc)
            if not is_beside:
                yield piece
            elif (passed := passed + len(piece)) > _MOST_BESIDE:
                raise _several(found, name)
        _check_end(source, head, crc)
    if not found:
        raise InputError(
            "unknown_format", "this is a zip archive without a file", hint="pack the file again: zip FILE.zip FILE"
        )
    while source.read():  # the directory behind the files
        pass


def _data(source: "Source", head: bytes, is_folder: bool, inflated: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the data of a file with this header."""
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


def _check_end(source: "Source", head: bytes, crc: int) -> None:
    """Pass over what stands between the data of a file and the next header; check the checksum."""
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


def _several(*names: bytes) -> InputError:
    what = " and ".join(excerpt(name) for name in names if name)
    return InputError(
        "several_files", f"the archive has several files: {what}", hint="unpack it, and give one: unzip FILE"
    )
