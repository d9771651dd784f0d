"""Features that have numbers of their own in a dataset's blocks, in a file: those too far apart for a weight each.

The file only grows: a dataset has the first `Manifest.listed` of it, and a change that came to no end left the others.
"""

import struct
import zlib
from pathlib import Path

from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import INDEX, Array

_NAME = "listed"
_MAGIC = b"SSVMLST1"
_HEAD = struct.Struct("<8sIq")  # _MAGIC, checksum of the frame, features


def write_listed(directory: Path, features: Array) -> None:
    """Store the numbers (m,) int32 that they have in the input, durably, in the place of any that are there."""
    frame = codec.encode([features.astype(INDEX)])
    write_file(directory / _NAME, [_HEAD.pack(_MAGIC, zlib.crc32(frame), len(features)), frame])


def read_listed(directory: Path, count: int) -> Array:
    """The first so many, (count,) int32. Raises DatasetCorrupt."""
    try:
        return _decoded((directory / _NAME).read_bytes(), count)
    except FileNotFoundError as error:
        raise DatasetCorrupt("the file of listed features is missing") from error
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of listed features: {error.message}") from error


def _decoded(data: bytes, count: int) -> Array:
    if len(data) < _HEAD.size:
        raise CorruptData("it is too short")
    magic, checksum, there_are = _HEAD.unpack_from(data)
    frame = data[_HEAD.size :]
    if magic != _MAGIC or zlib.crc32(frame) != checksum or not count <= there_are < 1 << 31:
        raise CorruptData("it is another one, or damaged")
    (features,) = codec.decode(frame, [(INDEX, there_are)])
    return features[:count]
