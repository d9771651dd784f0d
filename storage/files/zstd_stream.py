"""Decodes a zstd frame of unknown origin piece by piece, with a bound on what one step may give."""

from collections.abc import Callable

import zstandard

from streamsvm.storage.errors import CorruptData

FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_TAIL = b"\x2a\x4d\x18"  # behind a byte 0x50 to 0x5f
BLOCK_BYTES = 128 << 10  # no block decodes to more
MAX_WINDOW_BYTES = 64 << 20  # asked for up to level 21; level 22 and `--long` may ask for more
RLE = 1

# Lengths of header fields by their bits in the descriptor (RFC 8878, 3.1.1.1).
DICTIONARY_LENGTH = (0, 1, 2, 4)
CONTENT_SIZE_LENGTH = (0, 2, 4, 8)


def is_frame(head: bytes) -> bool:
    """Whether a frame, maybe a skippable one, starts with these four bytes."""
    return head[:4] == FRAME_MAGIC or (head[1:4] == SKIPPABLE_TAIL and head[0] & 0xF0 == 0x50)


class ZstdStream:
    """One frame, with the interface of bz2.BZ2Decompressor.

    The decoder gets whole blocks, whose borders are read here (RFC 8878, 3.1.1): that bounds the output of a step, for
    four bytes can stand for 128 KiB, and shows where the frame ends.

    eof          whether the frame is complete
    unused_data  what came after it
    needs_input  whether nothing more comes without further input
    """

    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        self._data = bytearray()
        self._to_skip = 0
        self._has_checksum = False
        # Each reads one part of the frame and gives its decoded bytes, or None while the part is not all there.
        self._read_part: Callable[[], bytes | None] = self._read_header
        self.eof = False
        self.needs_input = True

    @property
    def unused_data(self) -> bytes:
        return bytes(self._data) if self.eof else b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Takes `data` in and gives at most max_length decoded bytes, which is 128 KiB or more.

        CorruptData when the frame is damaged, or needs a dictionary or a larger window.
        """
        self._data += data
        parts: list[bytes] = []
        room = max_length
        self.needs_input = False
        while room >= BLOCK_BYTES and not self.eof:
            part = self._read_part()
            if part is None:
                self.needs_input = True
                break
            room -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _read_header(self) -> bytes | None:
        if len(self._data) < 8:
            # No frame is shorter; five bytes tell the length of the header.
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
            raise CorruptData(f"a block of {header >> 3} bytes")
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
            self._read_part = following
        return decoded

    def _decode(self, length: int) -> bytes | None:
        """The decoder's output for the next `length` bytes, None if there are fewer."""
        if len(self._data) < length:
            return None
        try:
            decoded = self._decoder.decompress(bytes(self._data[:length]))
        except zstandard.ZstdError as error:
            raise CorruptData(str(error)) from error
        del self._data[:length]
        return decoded
