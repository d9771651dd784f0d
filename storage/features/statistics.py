"""Statistics of each feature of a dataset: computed while it is imported, and stored in a file beside its blocks."""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.maps_kernel import count_features
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import Array

_NAME = "statistics"
MAGIC = b"SSVMSTA1"
HEAD = struct.Struct("<8sqq")  # MAGIC, rows, features
_FAR = 1000.0  # coordinate descent is slow if sizes of features differ by a larger factor
_SHOWN = 3
MOST_FEATURES = 1 << 21  # a feature takes 28 bytes
_SUMS: dict[str, np.dtype] = {"rows": np.dtype("<i8"), "sums": np.dtype("<f8"), "squares": np.dtype("<f8")}
_COLUMNS: dict[str, np.dtype] = {**_SUMS, "largest": np.dtype("<f4")}


@dataclass
class FeatureStatistics:
    """Statistics of each feature, in arrays (width,) by the input's feature numbers.

    n_rows   number of rows counted
    rows     int64: number of rows with a stored value of the feature
    sums, squares  float64: sum of the feature's values, and of their squares
    largest  float32: the feature's largest absolute value
    """

    n_rows: int
    rows: Array
    sums: Array
    squares: Array
    largest: Array

    @classmethod
    def none(cls) -> "FeatureStatistics":
        """Return the statistics of zero rows."""
        return cls(0, **{name: np.zeros(0, dtype) for name, dtype in _COLUMNS.items()})

    @property
    def width(self) -> int:
        return len(self.rows)

    def add(self, indptr: Array, indices: Array, values: Array) -> bool:
        """Add rows. Return False if there are over MOST_FEATURES features: the statistics must then be given up."""
        width = int(indices.max(initial=-1)) + 1
        if width > MOST_FEATURES:
            return False
        self.widen(width)
        self.n_rows += len(indptr) - 1
        count_features(indices, values, self.rows, self.sums, self.squares, self.largest)
        return True

    def widen(self, width: int) -> None:
        """Lengthen the arrays, with zeros, to hold at least the features below `width`."""
        if width <= self.width:
            return
        # Lengths double, so that arrays are seldom copied.
        width = max(width, min(2 * self.width, MOST_FEATURES))
        for name in _COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros(width - len(old), old.dtype))))

    def of_width(self, width: int) -> "FeatureStatistics":
        """Return these statistics with arrays of length `width`, cut or filled up with zeros."""
        other = FeatureStatistics(self.n_rows, self.rows, self.sums, self.squares, self.largest)
        other.widen(width)
        return FeatureStatistics(self.n_rows, **{name: getattr(other, name)[:width] for name in _COLUMNS})

    def plus(self, others: "FeatureStatistics") -> "FeatureStatistics":
        """Return the statistics of these rows together with the rows of `others`."""
        width = max(self.width, others.width)
        a, b = self.of_width(width), others.of_width(width)
        sums = {name: getattr(a, name) + getattr(b, name) for name in _SUMS}
        return FeatureStatistics(a.n_rows + b.n_rows, **sums, largest=np.maximum(a.largest, b.largest))


def far_scales(statistics: FeatureStatistics) -> tuple[tuple[int, float], ...]:
    """Return (feature, root mean square) of the largest and smallest features, largest first; () for similar scales."""
    features = np.flatnonzero(statistics.rows)
    sizes = np.sqrt(statistics.squares[features] / statistics.rows[features])
    if len(features) < 2 or sizes.max() <= _FAR * sizes.min():
        return ()
    order = np.argsort(-sizes, kind="stable")
    shown = order if len(order) <= 2 * _SHOWN else np.concatenate((order[:_SHOWN], order[-_SHOWN:]))
    return tuple(zip(features[shown].tolist(), sizes[shown].tolist(), strict=True))


def write_statistics(directory: Path, statistics: FeatureStatistics) -> None:
    """Write the statistics beside the blocks of a dataset, durably."""
    columns = codec.encode([getattr(statistics, name) for name in _COLUMNS])
    head = HEAD.pack(MAGIC, statistics.n_rows, statistics.width)
    write_file(directory / _NAME, [zlib.crc32(head + columns).to_bytes(4, "little"), head, columns])


def read_statistics(directory: Path) -> FeatureStatistics | None:
    """Read the statistics of a dataset; None if they are missing or damaged: they can be computed again."""
    try:
        data = (directory / _NAME).read_bytes()
    except OSError:
        return None
    checksum, head = int.from_bytes(data[:4], "little"), data[4 : 4 + HEAD.size]
    if len(head) < HEAD.size or zlib.crc32(data[4:]) != checksum or head[: len(MAGIC)] != MAGIC:
        return None
    _, n_rows, width = HEAD.unpack(head)
    try:
        columns = codec.decode(data[4 + HEAD.size :], [(dtype, width) for dtype in _COLUMNS.values()])
    except CorruptData:
        return None
    return FeatureStatistics(n_rows, *columns)


def drop_statistics(directory: Path) -> None:
    """Delete the statistics of a dataset whose rows have changed."""
    (directory / _NAME).unlink(missing_ok=True)
