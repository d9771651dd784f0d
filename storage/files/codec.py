"""Frames of zstd: columns of numbers in files of this program, and untrusted frames of any program.

Columns of numbers are one frame: little-endian, bytes shuffled, with content size.
Shuffling stores the first bytes of all items of a column, then all second bytes, and so on (Blosc, Alted 2010). Numbers
of like size share their high bytes, which compress to almost nothing. Each such plane of bytes is a zstd block with its
own statistics, so zstd stores the low bytes, which are noise, uncompressed.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import zstandard

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.files.codec_kernel import join_bytes, split_bytes
from streamsvm.storage.rows.csr import Array

# Measured on columns of text data: levels 2 and 3 are slower and no smaller; level -1 is 1% larger for values and 6 to
# 23% for indices. Matches of fewer than 7 bytes save nothing over Huffman codes and take a third of the decoding time.
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, min_match=7)

# A column of fewer items becomes one zstd block: its planes are too small for separate statistics.
_FEWEST_ITEMS = 1 << 12

FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_TAIL = b"\x2a\x4d\x18"  # bytes after a byte 0x50 to 0x5f, which together begin a skippable frame
BLOCK_BYTES = 128 << 10  # most bytes that one block decodes to
MAX_WINDOW_BYTES = 64 << 20  # enough for levels up to 21; level 22 and `--long` may need more
RLE = 1

# Lengths of header fields by their bits in the frame header descriptor (RFC 8878, 3.1.1.1).
DICTIONARY_LENGTH = (0, 1, 2, 4)
CONTENT_SIZE_LENGTH = (0, 2, 4, 8)

_local = threading.local()


def encode(columns: Sequence[Array]) -> bytes:
    """Encode columns (n,), of dtypes of 4 or 8 bytes and of any lengths, as one frame."""
    # Each thread has a compressor: threads cannot share one, and making one for each frame takes too long.
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
    frame = _local.compressor.compressobj(size=sum(column.nbytes for column in columns))
    chunks = []
    for column in columns:
        planes = np.empty(column.nbytes, np.uint8)
        split_bytes(np.ascontiguousarray(column).view(_word(column.dtype)), planes)
        # A zstd block for each plane, or one for all planes.
        for plane in planes.reshape(column.itemsize if len(column) >= _FEWEST_ITEMS else 1, -1):
            chunks += [frame.compress(plane.data), frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join([*chunks, frame.flush()])


def decode(frame: memoryview | bytes, shapes: Sequence[tuple[np.dtype, int]]) -> list[Array]:
    """Decode a frame into columns; shapes: (dtype, length) of each. Raises CorruptData if the frame does not fit."""
    planes = _decompress(frame, sum(dtype.itemsize * count for dtype, count in shapes))
    columns, start = [], 0
    for dtype, count in shapes:
        words = np.empty(count, _word(dtype))
        join_bytes(planes[start : start + words.nbytes], words)
        columns.append(words.view(dtype))
        start += words.nbytes
    return columns


def decode_first(start: memoryview | bytes, dtype: np.dtype, count: int) -> Array:
    """Decode the first column of a frame, (count,), from the frame's first bytes. Raises CorruptData."""
    words = np.empty(count, _word(dtype))
    try:
        planes = zstandard.ZstdDecompressor().stream_reader(bytes(start)).read(words.nbytes)
    except zstandard.ZstdError as error:
        raise CorruptData("a frame does not begin with a column") from error
    if len(planes) != words.nbytes:
        raise CorruptData("a frame ends within its first column")
    join_bytes(np.frombuffer(planes, np.uint8), words)
    return words.view(dtype)


def _word(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"<u{dtype.itemsize}")


def _decompress(frame: memoryview | bytes, size: int) -> Array:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        # Check the size before decompressing: zstd would allocate whatever size the frame states.
        stated = zstandard.frame_content_size(frame)
        if stated != size:
            raise CorruptData(f"the columns state {stated} bytes instead of {size}")
        return np.frombuffer(_local.decompressor.decompress(frame), np.uint8)
    except zstandard.ZstdError as error:
        raise CorruptData(f"the columns do not decompress: {error}") from error


def is_frame(head: bytes) -> bool:
    """Whether the four bytes `head` begin a zstd frame, which may be a skippable frame."""
    return head[:4] == FRAME_MAGIC or (head[1:4] == SKIPPABLE_TAIL and head[0] & 0xF0 == 0x50)


class ZstdStream:
    """A decoder of one zstd frame, with the interface of bz2.BZ2Decompressor.

    It reads block headers itself (RFC 8878, 3.1.1) and passes one whole block at a time to the decoder of zstandard. So
    the output of a step is bounded, although four bytes of input can stand for 128 KiB, and the frame's end is known.

    eof          whether the frame is complete
    unused_data  bytes after the frame
    needs_input  whether `decompress` needs more input before it can return more output
    """

    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        self._data = bytearray()
        self._to_skip = 0
        self._has_checksum = False
        # The next step: it decodes one header, block or checksum, or returns None until all of its input has arrived.
        self._step: Callable[[], bytes | None] = self._read_header
        self.eof = False
        self.needs_input = True

    @property
    def unused_data(self) -> bytes:
        return bytes(self._data) if self.eof else b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Append `data` to the input; return at most `max_length` decoded bytes. max_length must be at least 128 KiB.

        Raises CorruptData if the frame is damaged, or needs a dictionary or a window above 64 MiB.
        """
        self._data += data
        output: list[bytes] = []
        room = max_length
        self.needs_input = False
        while room >= BLOCK_BYTES and not self.eof:
            decoded = self._step()
            if decoded is None:
                self.needs_input = True
                break
            room -= len(decoded)
            output.append(decoded)
        return b"".join(output)

    def _read_header(self) -> bytes | None:
        if len(self._data) < 8:
            # No frame is shorter than 8 bytes, and 5 bytes suffice to know the length of the header.
            return None
        if self._data[:4] != FRAME_MAGIC:
            self._to_skip = int.from_bytes(self._data[4:8], "little")
            del self._data[:8]
            return self._then(self._skip, b"")
        descriptor = self._data[4]
        single_segment = descriptor >> 5 & 1
        content_size = CONTENT_SIZE_LENGTH[descriptor >> 6] or single_segment
        self._has_checksum = bool(descriptor >> 2 & 1)
        length = 5 + (1 - single_segment) + DICTIONARY_LENGTH[descriptor & 3] + content_size
        return self._then(self._read_block, self._decode(length))

    def _skip(self) -> bytes | None:
        count = min(self._to_skip, len(self._data))
        self._to_skip -= count
        del self._data[:count]
        self.eof = self._to_skip == 0
        return b"" if self.eof else None

    def _read_block(self) -> bytes | None:
        if len(self._data) < 3:
            return None
        header = int.from_bytes(self._data[:3], "little")
        size = 1 if header >> 1 & 3 == RLE else header >> 3
        if header >> 3 > BLOCK_BYTES:
            raise CorruptData(f"a block states {header >> 3} bytes, more than {BLOCK_BYTES}")
        decoded = self._decode(3 + size)
        if not header & 1:
            return decoded
        return self._then(self._read_checksum if self._has_checksum else self._end, decoded)

    def _read_checksum(self) -> bytes | None:
        return self._then(self._end, self._decode(4))

    def _end(self) -> bytes:
        if not self._decoder.eof:
            raise CorruptData("the frame does not end with its last block")
        self.eof = True
        return b""

    def _then(self, following: Callable[[], bytes | None], decoded: bytes | None) -> bytes | None:
        if decoded is not None:
            self._step = following
        return decoded

    def _decode(self, length: int) -> bytes | None:
        """Decode the next `length` bytes of input; return None if fewer bytes have arrived."""
        if len(self._data) < length:
            return None
        try:
            decoded = self._decoder.decompress(bytes(self._data[:length]))
        except zstandard.ZstdError as error:
            raise CorruptData(str(error)) from error
        del self._data[:length]
        return decoded
