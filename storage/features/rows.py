"""The interface of a feature map, and the rows it works on: compressed sparse rows of one shape."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import EMPTY, Array


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
        """Return the statistics of mapped rows, given the statistics of the rows before; None: they are unknown."""
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
