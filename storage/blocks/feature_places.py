"""Where a dataset keeps the features of its input, if it numbers them anew: one file of zstd-compressed int32."""

import zlib
from pathlib import Path

from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import INDEX, Array

_NAME = "features"


def write_places(directory: Path, places: Array) -> int:
    """Store `places` (d,) int32, feature f of the input is places[f]; returns the checksum for the manifest."""
    data = codec.encode([places])
    write_file(directory / _NAME, [data])
    return zlib.crc32(data)


def read_places(directory: Path, count: int, checksum: int) -> Array:
    """The places (count,) of a dataset. Raises DatasetCorrupt."""
    try:
        data = (directory / _NAME).read_bytes()
    except FileNotFoundError as error:
        raise DatasetCorrupt("the file of feature places is missing") from error
    if zlib.crc32(data) != checksum:
        raise DatasetCorrupt("the file of feature places has a wrong checksum")
    try:
        (places,) = codec.decode(data, [(INDEX, count)])
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of feature places: {error.message}") from error
    return places
