"""Decodes an untrusted zstd frame step by step, with a bound on the output of each step."""

from collections.abc import Callable

import zstandard

from streamsvm.storage.errors import CorruptData

FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_TAIL = b"\x2a\x4d\x18"  # bytes after a byte 0x50 to 0x5f, which together begin a skippable frame
BLOCK_BYTES = 128 << 10  # most bytes that one block decodes to
MAX_WINDOW_BYTES = 64 << 20  # enough for levels up to 21; level 22 and `--long` may need more
RLE = 1

# Lengths of header fields by their bits in the frame header descriptor (RFC 8878, 3.1.1.1).
DICTIONARY_LENGTH = (0, 1, 2, 4)
CONTENT_SIZE_LENGTH = (0, 2, 4, 8)


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
