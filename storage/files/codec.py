"""Encodes columns of numbers as one zstd frame: little-endian, bytes shuffled, with content size.

Shuffling stores the first bytes of all items of a column, then all second bytes, and so on (Blosc, Alted 2010). Numbers
of similar size share their high bytes, which compress to almost nothing. Each plane, the k-th bytes of all items, is a
zstd block with its own statistics, so zstd stores the low bytes, which are noise, uncompressed.
"""

import threading
from collections.abc import Sequence

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

_local = threading.local()


def encode(columns: Sequence[Array]) -> bytes:
    """Encode columns (n,), of dtypes of 4 or 8 bytes and of any lengths, as one frame."""
    # Each thread has a compressor: threads cannot share one, and making one for each frame takes too long.
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
    frame = _local.compressor.compressobj(size=sum(column.nbytes for column in columns))
    chunks = []
    for column in columns:
        for plane in _planes(column):
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


def _word(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"<u{dtype.itemsize}")


def _planes(column: Array) -> Array:
    """Return the shuffled bytes of a column, (zstd blocks, bytes): a block for each plane, or one for all planes."""
    planes = np.empty(column.nbytes, np.uint8)
    split_bytes(np.ascontiguousarray(column).view(_word(column.dtype)), planes)
    return planes.reshape(column.itemsize if len(column) >= _FEWEST_ITEMS else 1, -1)


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
