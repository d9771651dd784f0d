"""Unpacks a zip archive with one file while it arrives, and tells it from npz and workbooks."""

import zlib

from streamsvm.reader.errors import InputError

LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
HEAD_BYTES = 512
_FIXED, _STORED, _DEFLATED, _ENCRYPTED, _SIZE_FOLLOWS = 30, 0, 8, 1, 8
_WORKBOOKS = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetype")
_DESCRIPTORS = (0, 12, 16, 20, 24)  # bytes between the data of a file and what follows


def is_archive(head: bytes) -> bool:
    """Whether an input that begins with `head` is an archive of files, and not npz. InputError for a workbook."""
    if not head.startswith(LOCAL):
        return False
    name = head[_FIXED : _FIXED + int.from_bytes(head[26:28], "little")]
    if name.startswith(_WORKBOOKS):
        raise InputError(
            "unknown_format",
            "this is a workbook, as Excel writes it",
            hint="save its sheet as CSV, or give Python the data frame: fit(pandas.read_excel(...), 'column')",
            byte=0,
        )
    return not name.endswith(b".npy")


class ZipStream:
    """Decodes the one file of an archive, with the interface of bz2.BZ2Decompressor. ValueError for another archive."""

    def __init__(self) -> None:
        self._head = b""
        self._decoder = zlib.decompressobj(wbits=-15)
        self._is_open = self.eof = False
        self._end = b""
        self._crc = 0
        self._left: int | None = None  # bytes of a file that is stored as it is
        self.needs_input, self.unused_data = True, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if not self._is_open:
            data = self._opened(self._head + data)
            if not self._is_open:
                return b""
        if self._decoder.eof or self._left == 0:
            self._finish(data)
            return b""
        if self._left is not None:
            return self._stored(data, self._left)
        decoded = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        self._crc = zlib.crc32(decoded, self._crc)
        if self._decoder.eof:
            self._finish(self._decoder.unused_data)
        else:
            self.needs_input = not self._decoder.unconsumed_tail and len(decoded) < max_length
        return decoded

    def _opened(self, head: bytes) -> bytes:
        """Read the header of the file; return what follows it."""
        names = sum(int.from_bytes(head[k : k + 2], "little") for k in (26, 28))
        if len(head) < _FIXED or len(head) < _FIXED + names:
            self._head = head
            return b""
        method, flags = int.from_bytes(head[8:10], "little"), head[6]
        if flags & _ENCRYPTED or not (method == _DEFLATED or (method == _STORED and not flags & _SIZE_FOLLOWS)):
            raise ValueError("the file in the archive is encrypted, or packed in another way than others: unpack it")
        if method == _STORED:
            self._left = int.from_bytes(head[18:22], "little")
        self._is_open = True
        return head[_FIXED + names :]

    def _stored(self, data: bytes, left: int) -> bytes:
        """Take the next bytes of a file that is stored as it is."""
        taken = data[:left]
        self._crc = zlib.crc32(taken, self._crc)
        self._left = left - len(taken)
        if self._left == 0:
            self._finish(data[left:])
        return taken

    def _finish(self, data: bytes) -> None:
        """Read the entry of the file behind its data; check that there is no other file."""
        self._end += data
        self.needs_input = True
        if len(self._end) < _DESCRIPTORS[-1] + 20:
            return
        for skipped in _DESCRIPTORS:
            follows = self._end[skipped:]
            if follows.startswith(LOCAL):
                raise InputError("several_files", "the archive has several files", hint="unpack it: unzip FILE")
            if follows.startswith(CENTRAL):
                if int.from_bytes(follows[16:20], "little") != self._crc:
                    raise ValueError("the checksum of the file in the archive is another")
                self.eof = True
                return
        raise ValueError("no entry follows the file in the archive")
