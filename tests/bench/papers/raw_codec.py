"""A codec that compresses nothing: its frames are zstd's, of raw blocks, so that any job reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from streamsvm.storage.files import codec
from streamsvm.storage.rows.csr import Array

# RFC 8878, 3.1.1: magic number; one segment, its content size in 8 bytes; a block has at most 128 KiB.
_HEADER = struct.Struct("<IBQ")
_MAGIC, _DESCRIPTOR, _LARGEST_BLOCK = 0xFD2FB528, 0xE0, 1 << 17


@contextmanager
def raw_codec() -> Iterator[None]:
    """What this process stores in the meantime is stored as it is."""
    with patch.object(codec, "encode", encode):
        yield


def encode(columns: Sequence[Array]) -> bytes:
    """What `codec.encode` makes of these columns, but for the compression."""
    planes = [np.empty(column.nbytes, np.uint8) for column in columns]
    for column, plane in zip(columns, planes, strict=True):
        words = np.ascontiguousarray(column).view(f"<u{column.itemsize}")
        codec.split_bytes(words, plane)
    content = b"".join(plane.tobytes() for plane in planes)
    starts = range(0, len(content), _LARGEST_BLOCK)
    blocks = [content[start : start + _LARGEST_BLOCK] for start in starts] or [b""]
    framed = [_block_header(len(block), number == len(blocks)) + block for number, block in enumerate(blocks, 1)]
    return _HEADER.pack(_MAGIC, _DESCRIPTOR, len(content)) + b"".join(framed)


def _block_header(size: int, is_last: bool) -> bytes:
    """Three bytes: the last block or not, raw (type 0), its size."""
    return (size << 3 | is_last).to_bytes(3, "little")
