"""The n-grams (words) that were hashed to features of documents, for people to read, in a file beside the blocks."""

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import Array

_NAME = "words"
_HEAD = np.dtype([("magic", "S8"), ("version", "<u4"), ("checksum", "<u4"), ("words", "<i8"), ("bytes", "<i8")])
_MAGIC, _VERSION = b"SSVMWRDS", 1
_PLACE, _WORD = np.dtype("<i4"), np.dtype("<i8")


class FeatureWords(NamedTuple):
    """For k features, the first n-gram that was hashed to the feature.

    features  (k,) int32, ascending
    signs     (k,) int32: 1 or -1, the sign with which the n-gram is counted if hashing alternates signs
    words     the k n-grams, in UTF-8
    """

    features: Array
    signs: Array
    words: list[bytes]


def write_words(directory: Path, words: FeatureWords) -> None:
    """Write the words of a dataset, durably; replace an older file."""
    text = b"".join(words.words)
    padded = np.frombuffer(text.ljust(-(-len(text) // 8) * 8, b"\0"), _WORD)
    lengths = np.fromiter(map(len, words.words), _PLACE, len(words.words)) * words.signs
    data = codec.encode([words.features.astype(_PLACE), lengths.astype(_PLACE), padded])
    head = np.array([(_MAGIC, _VERSION, zlib.crc32(data), len(words.words), len(text))], _HEAD)
    write_file(directory / _NAME, [head.tobytes(), data])


def check_words(directory: Path) -> None:
    """Raise DatasetCorrupt if the dataset has a file of words, and the file is damaged."""
    try:
        data = (directory / _NAME).read_bytes()
    except FileNotFoundError:
        return
    try:
        _decoded(data)
    except CorruptData as error:
        raise DatasetCorrupt(f"the file of words: {error.message}") from error


def read_words(directory: Path) -> FeatureWords | None:
    """Read the words of a dataset; None if the dataset has no file of words, or the file cannot be read."""
    try:
        return _decoded((directory / _NAME).read_bytes())
    except (OSError, CorruptData):
        return None


def _decoded(data: bytes) -> FeatureWords:
    if len(data) < _HEAD.itemsize:
        raise CorruptData("it is too short")
    head = np.frombuffer(data, _HEAD, 1)[0]
    frame = data[_HEAD.itemsize :]
    if head["magic"] != _MAGIC or head["version"] != _VERSION:
        raise CorruptData("it is of another format or version")
    if zlib.crc32(frame) != head["checksum"]:
        raise CorruptData("it has a wrong checksum")
    count, size = int(head["words"]), int(head["bytes"])
    if min(count, size) < 0 or max(count, size) > 1 << 31:
        raise CorruptData("its sizes are wrong")
    features, lengths, padded = codec.decode(frame, [(_PLACE, count), (_PLACE, count), (_WORD, -(-size // 8))])
    text = padded.tobytes()[:size]
    ends = np.cumsum(np.abs(lengths.astype(np.int64))).tolist()
    words = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return FeatureWords(features, np.sign(lengths), words)
