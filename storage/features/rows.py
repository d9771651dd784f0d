"""The interface of a feature map, and the rows it works on: compressed sparse rows of one shape."""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.maps_kernel import count_features
from streamsvm.storage.files import codec
from streamsvm.storage.files.durable import write_file
from streamsvm.storage.rows.csr import EMPTY, Array

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


class Features(NamedTuple):
    """Rows in compressed sparse row form: row i has the features indices[indptr[i]:indptr[i + 1]], likewise its values.

    indptr (n + 1,) int64, starts at 0; indices (nnz,) int32; values (nnz,) float32
    """

    indptr: Array
    indices: Array
    values: Array

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1


class FeaturesError(Exception):
    """A map cannot be applied to the rows.

    code     a stable code, for programs
    message  a sentence for people; hint: advice for people, or ""
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True)
class Shape:
    """The shape of the rows that a map takes or makes.

    width    exclusive upper bound of the feature numbers
    base     number of the first feature in the input, 0 or 1
    strings  length of each row in bases, if rows are strings of bases (storage.rows.csr); 0: rows have features
    """

    width: int
    base: int = 0
    strings: int = 0


Apply = Callable[[Features], Features]


class FeatureMap:
    """A feature map. A subclass is a frozen dataclass whose fields are the map's options in a job, see storage.options.

    expands           the map makes rows longer: it is applied at each visit, since stored rows would take too much room
    needs_numbers     the map needs the input's feature numbers, not those of the blocks
    of_strings        the map takes strings of bases; False: it takes features
    needs_statistics  `fit` needs the statistics of the rows that the map takes
    keeps_statistics  `after` can compute the statistics of mapped rows from the statistics of the rows before
    """

    expands: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = False
    of_strings: ClassVar[bool] = False
    keeps_statistics: ClassVar[bool] = False

    @property
    def needs_statistics(self) -> bool:
        return False

    def check(self, shape: Shape) -> None:
        """Raise FeaturesError if the map cannot take rows of this shape."""

    def width(self, shape: Shape) -> int:
        """Return the width of mapped rows, given the shape of the rows before."""
        return shape.width

    def shape(self, before: Shape) -> Shape:
        """Return the shape of mapped rows, given the shape of the rows before."""
        return Shape(self.width(before), before.base)

    def most_values(self, lengths: Array) -> Array:
        """Return upper bounds (n,) of the numbers of values in mapped rows; lengths (n,) int64: values in the rows."""
        return lengths

    def mean_square(self, before: float) -> float:
        """Return an estimate of the mean squared norm of mapped rows; before: mean squared norm of unmapped rows."""
        return before

    def own_bytes(self, _shape: Shape) -> int:
        """Return the bytes of memory that the map's tables take in each process."""
        return 0

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        """Return name -> length of each float64 array that `fit` returns."""
        return {}

    def check_fitted(self, _shape: Shape, _arrays: Mapping[str, Array]) -> None:
        """Raise FeaturesError if `fit` cannot have returned the arrays, of right sizes, and with finite numbers."""

    def folded(self, _w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array] | None:
        """Return v (..., width), c (...) with <w, mapped x> = <v, x> + c for all rows x; None: there is no such v."""
        return None

    def fit(self, _shape: Shape, _statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        """Return the arrays that the map needs, fitted to a dataset. Raises FeaturesError if it lacks statistics."""
        return EMPTY

    def after(self, _statistics: FeatureStatistics | None, _arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        """Return the statistics of the rows that this map makes, from the `statistics` of its input; None: unknown."""
        return None

    def renumbered(self, arrays: Mapping[str, Array], _place: Callable[[Array], Array]) -> Mapping[str, Array]:
        """Return the fitted arrays in the order of the blocks' feature numbers, see `FeatureMaps.renumbered`."""
        return arrays

    def ready(self, shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        """Return the function that maps rows of this shape, with the fitted arrays. Any thread may call it."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, Any]:
        """The map's options by name, as a JSON object."""
        return asdict(self)  # type: ignore[call-overload]


def needed(statistics: FeatureStatistics | None, name: str) -> FeatureStatistics:
    """Return the statistics, which the map `name` needs. Raises FeaturesError if they are None."""
    if statistics is None:
        raise not_counted(name)
    return statistics


def not_counted(name: str) -> FeaturesError:
    """Return the error of the map `name`, which needs statistics that do not exist."""
    return FeaturesError(
        "no_statistics",
        f"{name} needs statistics of the features of its rows, and there are none",
        f"Put {name} before the other maps; a dataset of too many features has no statistics.",
    )
