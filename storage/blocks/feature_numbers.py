"""The feature numbers of a dataset's blocks, if they differ from those of the input: two files beside the blocks.

The file `features` has the places: place f is the number in the blocks of feature f of the input, for the first
features. The file `listed` has the numbers in the input of the blocks' last features; such numbers are too far apart
for a weight each. It only grows: the first `Manifest.listed` entries count; an unfinished append may have left more.
"""

import struct
import zlib
from pathlib import Path

from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import INDEX, Array

_PLACES, _LISTED = "features", "listed"
_MAGIC = b"SSVMLST1"
_HEAD = struct.Struct("<8sIq")  # _MAGIC, checksum of the frame, features


def write_places(directory: Path, places: Array) -> int:
    """Write `places` (d,) int32: feature f of the input is places[f] in the blocks. Return the file's checksum."""
    data = codec.encode([places])
    write_file(directory / _PLACES, [data])
    return zlib.crc32(data)


def read_places(directory: Path, count: int, checksum: int) -> Array:
    """Read the places (count,) int32 of a dataset. Raises DatasetCorrupt if the file is missing or damaged."""
    try:
        data = (directory / _PLACES).read_bytes()
    except FileNotFoundError as error:
        raise DatasetCorrupt("the file of feature places is missing") from error
    if zlib.crc32(data) != checksum:
        raise DatasetCorrupt("the file of feature places has a wrong checksum")
    try:
        (places,) = codec.decode(data, [(INDEX, count)])
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of feature places: {error.message}") from error
    return places


def write_listed(directory: Path, features: Array) -> None:
    """Write the listed features (m,) int32, by their numbers in the input, durably; replace an older file."""
    frame = codec.encode([features.astype(INDEX)])
    write_file(directory / _LISTED, [_HEAD.pack(_MAGIC, zlib.crc32(frame), len(features)), frame])


def read_listed(directory: Path, count: int) -> Array:
    """Read the first `count` listed features (count,) int32, by their numbers in the input. Raises DatasetCorrupt."""
    try:
        return _decode_listed((directory / _LISTED).read_bytes(), count)
    except FileNotFoundError as error:
        raise DatasetCorrupt("the file of listed features is missing") from error
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of listed features: {error.message}") from error


def _decode_listed(data: bytes, count: int) -> Array:
    if len(data) < _HEAD.size:
        raise CorruptData("it is too short")
    magic, checksum, n_features = _HEAD.unpack_from(data)
    frame = data[_HEAD.size :]
    if magic != _MAGIC or zlib.crc32(frame) != checksum or not count <= n_features < 1 << 31:
        raise CorruptData("it is another file, or damaged")
    (features,) = codec.decode(frame, [(INDEX, n_features)])
    return features[:count]
