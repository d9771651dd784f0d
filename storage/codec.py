"""Columns of a block as zstd frames: little-endian, bytes shuffled, with content size.

Shuffling stores the first bytes of all items, then the second bytes and so on: numbers of like size share their high
bytes, which then cost nothing (Blosc, Alted 2010). Each of these planes is a zstd block of its own, with statistics of
its own: low bytes, which are noise, are then stored as they are. Indices are stored as differences inside their row
first.
"""

import threading

import numpy as np
import zstandard

from storage.codec_kernel import differences, integrate, join_bytes, split_bytes
from storage.csr import INDEX, Array
from storage.errors import CorruptData

# Measured on text-like columns: levels 2 and 3 are no smaller and slower; level -1 is 1% larger for values and 6 to 23%
# for indices.
LEVEL = 1

_local = threading.local()


def encode(column: Array) -> bytes:
    """One column (n,) of a dtype of 4 or 8 bytes as a frame."""
    words = np.ascontiguousarray(column).view(_word(column.dtype))
    planes = np.empty(column.nbytes, np.uint8)
    split_bytes(words, planes)
    return _compress(planes, column.dtype.itemsize)


def decode(frame: memoryview | bytes, dtype: np.dtype, count: int) -> Array:
    """The column back, (count,); CorruptData when the frame is not one of `count` items."""
    words = np.zeros(count, _word(dtype))
    join_bytes(_decompress(frame, words.nbytes), words)
    return words.view(dtype)


def encode_indices(indices: Array, indptr: Array) -> bytes:
    """Feature indices (nnz,), increasing inside each row, as a frame of differences."""
    steps = np.empty(len(indices), INDEX)
    differences(indices, indptr, steps)
    return encode(steps)


def decode_indices(frame: memoryview | bytes, indptr: Array) -> Array:
    """The indices back, (indptr[-1],) int32."""
    indices = decode(frame, INDEX, int(indptr[-1]))
    integrate(indptr, indices)
    return indices


def _word(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"<u{dtype.itemsize}")


def _compress(planes: Array, count: int) -> bytes:
    # A compressor is not safe to share between threads, and costs too much to make for every column.
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=LEVEL)
    frame = _local.compressor.compressobj(size=len(planes))
    parts = []
    for plane in planes.reshape(count, -1):
        parts += [frame.compress(plane.data), frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join([*parts, frame.flush()])


def _decompress(frame: memoryview | bytes, size: int) -> Array:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        # The stated size is checked first: zstd would allocate whatever the frame asks for.
        stated = zstandard.frame_content_size(frame)
        if stated != size:
            raise CorruptData(f"a column states {stated} bytes where {size} belong")
        return np.frombuffer(_local.decompressor.decompress(frame), np.uint8)
    except zstandard.ZstdError as error:
        raise CorruptData(f"a column does not decompress: {error}") from error
