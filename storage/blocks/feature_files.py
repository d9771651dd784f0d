"""Files about features beside the blocks of a dataset: their numbers in the input, and the words behind them.

`features` holds the places: the numbers that the first features of the input have in the blocks. `listed` holds the
numbers that the last features of the blocks have in the input, where these are too far apart for a weight each. It only
grows: a dataset has the first `Manifest.listed` features of the file, and a change that did not end may have left more.
`words` holds the words behind the features of hashed documents: people read them.

Columns are one frame (storage.files.codec), behind a head; the checksum of the places is in the manifest.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import INDEX, Array

_PLACES, _LISTED, _WORDS = "features", "listed", "words"
_LISTED_HEAD = np.dtype([("magic", "S8"), ("checksum", "<u4"), ("features", "<i8")])
_WORDS_HEAD = np.dtype([("magic", "S8"), ("version", "<u4"), ("checksum", "<u4"), ("words", "<i8"), ("bytes", "<i8")])
_LISTED_MAGIC, _WORDS_MAGIC, _WORDS_VERSION = b"SSVMLST1", b"SSVMWRDS", 1
_LENGTH, _WORD = np.dtype("<i4"), np.dtype("<i8")
_MOST = 1 << 31  # of anything in a file
Content = TypeVar("Content")


class FeatureWords(NamedTuple):
    """For k features, the first n-gram that was hashed to the feature.

    features  (k,) int32, ascending
    signs     (k,) int32: 1 or -1, the sign with which the n-gram is counted if hashing alternates signs
    words     the k n-grams, in UTF-8
    """

    features: Array
    signs: Array
    words: list[bytes]


def write_places(directory: Path, places: Array) -> int:
    """Write `places` (d,) int32: feature f of the input is places[f] in the blocks. Return the file's checksum."""
    data = codec.encode([places])
    write_file(directory / _PLACES, [data])
    return zlib.crc32(data)


def read_places(directory: Path, count: int, checksum: int) -> Array:
    """Read the places (count,) int32 of a dataset. Raises DatasetCorrupt if the file is missing or damaged."""

    def decoded(data: bytes) -> Array:
        if zlib.crc32(data) != checksum:
            raise CorruptData("it has a wrong checksum")
        return codec.decode(data, [(INDEX, count)])[0]

    return _read(directory / _PLACES, "feature places", decoded)


def write_listed(directory: Path, features: Array) -> None:
    """Write the listed features (m,) int32, by their numbers in the input, durably; replace an older file."""
    frame = codec.encode([features.astype(INDEX)])
    head = np.array([(_LISTED_MAGIC, zlib.crc32(frame), len(features))], _LISTED_HEAD)
    write_file(directory / _LISTED, [head.tobytes(), frame])


def read_listed(directory: Path, count: int) -> Array:
    """Read the first `count` listed features (count,) int32, by their numbers in the input. Raises DatasetCorrupt."""

    def decoded(data: bytes) -> Array:
        head, frame = _checked(data, _LISTED_HEAD, _LISTED_MAGIC)
        if not count <= head["features"] < _MOST:
            raise CorruptData("its size is wrong")
        return codec.decode(frame, [(INDEX, int(head["features"]))])[0][:count]

    return _read(directory / _LISTED, "listed features", decoded)


def write_words(directory: Path, words: FeatureWords) -> None:
    """Write the words of a dataset, durably; replace an older file."""
    text = b"".join(words.words)
    padded = np.frombuffer(text.ljust(-(-len(text) // 8) * 8, b"\0"), _WORD)
    lengths = np.fromiter(map(len, words.words), _LENGTH, len(words.words)) * words.signs
    frame = codec.encode([words.features.astype(_LENGTH), lengths.astype(_LENGTH), padded])
    head = np.array([(_WORDS_MAGIC, _WORDS_VERSION, zlib.crc32(frame), len(words.words), len(text))], _WORDS_HEAD)
    write_file(directory / _WORDS, [head.tobytes(), frame])


def check_words(directory: Path) -> None:
    """Raise DatasetCorrupt if the dataset has a file of words, and the file is damaged."""
    if (directory / _WORDS).exists():
        _read(directory / _WORDS, "words", _words)


def read_words(directory: Path) -> FeatureWords | None:
    """Read the words of a dataset; None if the dataset has no file of words, or the file cannot be read."""
    try:
        return _words((directory / _WORDS).read_bytes())
    except (OSError, CorruptData):
        return None


def _words(data: bytes) -> FeatureWords:
    head, frame = _checked(data, _WORDS_HEAD, _WORDS_MAGIC)
    count, size = int(head["words"]), int(head["bytes"])
    if head["version"] != _WORDS_VERSION or min(count, size) < 0 or max(count, size) > _MOST:
        raise CorruptData("its version or its sizes are wrong")
    features, lengths, padded = codec.decode(frame, [(_LENGTH, count), (_LENGTH, count), (_WORD, -(-size // 8))])
    text = padded.tobytes()[:size]
    ends = np.cumsum(np.abs(lengths.astype(np.int64))).tolist()
    words = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return FeatureWords(features, np.sign(lengths), words)


def _checked(data: bytes, head_type: np.dtype, magic: bytes) -> tuple[Array, bytes]:
    """The head and the frame of a file. Raises CorruptData if it has another magic or checksum."""
    if len(data) < head_type.itemsize:
        raise CorruptData("it is too short")
    head, frame = np.frombuffer(data, head_type, 1)[0], data[head_type.itemsize :]
    if head["magic"] != magic:
        raise CorruptData("it is of another format or version")
    if zlib.crc32(frame) != head["checksum"]:
        raise CorruptData("it has a wrong checksum")
    return head, frame


def _read(path: Path, what: str, decoded: Callable[[bytes], Content]) -> Content:
    """The content of a file of `what`. Raises DatasetCorrupt."""
    try:
        return decoded(path.read_bytes())
    except FileNotFoundError as error:
        raise DatasetCorrupt(f"the file of {what} is missing") from error
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of {what}: {error.message}") from error
