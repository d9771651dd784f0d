"""The interface of a feature map, and the rows it works on: compressed sparse rows of one shape."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import EMPTY, Array


class Features(NamedTuple):
    """Rows: row i has the features indices[indptr[i]:indptr[i + 1]], with the values at the same positions.

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

    code     stable, for programs
    message  a sentence for people; hint: what to do instead
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True)
class Shape:
    """The shape of rows.

    width    all feature numbers are below it
    base     number of the first feature of the input, 0 or 1
    strings  length of each row in bases, if rows are strings (storage.rows.csr); 0: rows have features
    """

    width: int
    base: int = 0
    strings: int = 0


Apply = Callable[[Features], Features]


class FeatureMap:
    """A map with the options of a job: the fields of a frozen dataclass, see storage.options.

    expands       rows grow: they are mapped at each visit, which costs less than to store the mapped rows
    needs_numbers the map needs the input's feature numbers, not those of the blocks
    of_strings    the map takes strings; all others take features
    needs_statistics  `fit` needs the statistics of the rows that the map takes
    keeps_statistics  `after` computes the statistics of mapped rows from those of the rows before
    """

    expands: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = False
    of_strings: ClassVar[bool] = False
    keeps_statistics: ClassVar[bool] = False

    @property
    def needs_statistics(self) -> bool:
        return False

    def check(self, shape: Shape) -> None:
        """Raises FeaturesError if the map cannot take rows of this shape."""

    def width(self, shape: Shape) -> int:
        """The width of mapped rows, given the shape of the rows before."""
        return shape.width

    def shape(self, before: Shape) -> Shape:
        """The shape of mapped rows, given that of the rows before."""
        return Shape(self.width(before), before.base)

    def most_values(self, lengths: Array) -> Array:
        """Upper bounds (n,) of the number of values in mapped rows, for rows with `lengths` (n,) int64 values."""
        return lengths

    def mean_square(self, before: float) -> float:
        """An estimate of the mean squared norm of mapped rows, given that of the rows before."""
        return before

    def own_bytes(self, _shape: Shape) -> int:
        """Bytes that the map holds in each process."""
        return 0

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        """name -> length of each float64 array that `fit` returns."""
        return {}

    def check_fitted(self, _shape: Shape, _arrays: Mapping[str, Array]) -> None:
        """Raises FeaturesError if `fit` cannot have returned these arrays; their sizes are right, numbers finite."""

    def folded(self, _w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array] | None:
        """For w of mapped rows, (v, c) with <w, mapped x> = <v, x> + c; v (..., width), c (...). None: none exist."""
        return None

    def fit(self, _shape: Shape, _statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        """The arrays that the map needs, fitted to a dataset. Raises FeaturesError if it lacks statistics."""
        return EMPTY

    def after(self, _statistics: FeatureStatistics | None, _arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        """The statistics of mapped rows, given those of the rows before; None: unknown."""
        return None

    def renumbered(self, arrays: Mapping[str, Array], _place: Callable[[Array], Array]) -> Mapping[str, Array]:
        """The fitted arrays for a dataset that renumbers its features, see `FeatureMaps.renumbered`."""
        return arrays

    def ready(self, shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        """The function that maps rows of this shape; any thread may call it."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, Any]:
        """The options as JSON."""
        return asdict(self)  # type: ignore[call-overload]


def needed(statistics: FeatureStatistics | None, name: str) -> FeatureStatistics:
    """The statistics that the map `name` needs. Raises FeaturesError if there are none."""
    if statistics is None:
        raise not_counted(name)
    return statistics


def not_counted(name: str) -> FeaturesError:
    """The error of a map that needs statistics which do not exist."""
    return FeaturesError(
        "no_statistics",
        f"{name} needs statistics of the features of its rows, and there are none",
        f"Put {name} before the other maps; a dataset of too many features has no statistics.",
    )
