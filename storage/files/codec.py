"""Columns of numbers as one zstd frame: little-endian, bytes shuffled, with content size.

Shuffling stores the first bytes of all items of a column, then the second bytes and so on: numbers of like size share
their high bytes, which then cost nothing (Blosc, Alted 2010). Each of these planes is a zstd block of its own, with
statistics of its own: low bytes, which are noise, are then stored as they are.
"""

import threading
from collections.abc import Sequence

import numpy as np
import zstandard

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.files.codec_kernel import join_bytes, split_bytes
from streamsvm.storage.rows.csr import Array

# Measured on text-like columns: levels 2 and 3 are no smaller and slower; level -1 is 1% larger for values and 6 to 23%
# for indices. Short matches save nothing over Huffman codes alone, and take a third of the time of decoding.
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, min_match=7)

# Planes of fewer bytes are not worth statistics of their own.
_FEWEST = 1 << 12

_local = threading.local()


def encode(columns: Sequence[Array]) -> bytes:
    """Columns (n,), each of a dtype of 4 or 8 bytes and a length of its own, as a frame."""
    # A compressor is not safe to share between threads, and costs too much to make for every frame.
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
    frame = _local.compressor.compressobj(size=sum(column.nbytes for column in columns))
    parts = []
    for column in columns:
        for run in _runs(column):
            parts += [frame.compress(run.data), frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join([*parts, frame.flush()])


def decode(frame: memoryview | bytes, shapes: Sequence[tuple[np.dtype, int]]) -> list[Array]:
    """The columns back, given dtype and length of each; CorruptData when the frame is not one of them."""
    planes = _decompress(frame, sum(dtype.itemsize * count for dtype, count in shapes))
    columns, start = [], 0
    for dtype, count in shapes:
        words = np.empty(count, _word(dtype))
        join_bytes(planes[start : start + words.nbytes], words)
        columns.append(words.view(dtype))
        start += words.nbytes
    return columns


def _word(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"<u{dtype.itemsize}")


def _runs(column: Array) -> Array:
    """The column's planes, those that have statistics of their own apart."""
    planes = np.empty(column.nbytes, np.uint8)
    split_bytes(np.ascontiguousarray(column).view(_word(column.dtype)), planes)
    return planes.reshape(column.itemsize if len(column) >= _FEWEST else 1, -1)


def _decompress(frame: memoryview | bytes, size: int) -> Array:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        # The stated size is checked first: zstd would allocate whatever the frame asks for.
        stated = zstandard.frame_content_size(frame)
        if stated != size:
            raise CorruptData(f"columns state {stated} bytes where {size} belong")
        return np.frombuffer(_local.decompressor.decompress(frame), np.uint8)
    except zstandard.ZstdError as error:
        raise CorruptData(f"columns do not decompress: {error}") from error
