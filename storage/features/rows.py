"""What feature maps work on: rows in compressed sparse form, and what is known of all of them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import EMPTY, Array


class Features(NamedTuple):
    """Row i has the features indices[indptr[i]:indptr[i + 1]] with the values at the same places.

    indptr (n + 1,) int64, starts at 0; indices (nnz,) int32; values (nnz,) float32
    """

    indptr: Array
    indices: Array
    values: Array

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1


class FeaturesError(Exception):
    """A map cannot be applied to such rows.

    code     for programs
    message  a sentence for people; hint: what to do instead
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True)
class Shape:
    """Of the rows that a map is given.

    width    numbers of features are below
    base     the first of them, as the input numbers its features
    strings  bases of each row, if rows are strings (storage.rows.strings); 0: they are features
    """

    width: int
    base: int = 0
    strings: int = 0


Apply = Callable[[Features], Features]


class FeatureMap:
    """A map as a job asks for it; its options are the fields of a frozen dataclass, see storage.options.

    expands       it makes more than it is given: made anew at each visit, which costs less than to keep it
    needs_numbers features have to be numbered as in the input
    of_strings    it takes strings, and all others take features
    fits          it has to know the rows it is given as a whole
    keeps_count   of the rows it makes as much is known as of those it is given, see `after`
    """

    expands: ClassVar[bool] = False
    needs_numbers: ClassVar[bool] = False
    of_strings: ClassVar[bool] = False
    keeps_count: ClassVar[bool] = False

    @property
    def fits(self) -> bool:
        return False

    def check(self, shape: Shape) -> None:
        """Raises FeaturesError if rows of this shape cannot be mapped."""

    def width(self, shape: Shape) -> int:
        """The numbers of the features made are below."""
        return shape.width

    def shape(self, given: Shape) -> Shape:
        """Of the rows it makes of rows of this shape."""
        return Shape(self.width(given), given.base)

    def made(self, lengths: Array) -> Array:
        """Most values made of rows that have so many (n,) int64."""
        return lengths

    def mean_square(self, before: float) -> float:
        """Of the rows it makes, the mean squared norm, as far as that of the rows it is given tells."""
        return before

    def own_bytes(self, _shape: Shape) -> int:
        """What it holds in a process."""
        return 0

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        """Of what `fit` finds, float64: name -> length."""
        return {}

    def check_fitted(self, _shape: Shape, _arrays: Mapping[str, Array]) -> None:
        """Raises FeaturesError if arrays of these sizes, of finite numbers, cannot be what `fit` found."""

    def folded(self, _w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array] | None:
        """Of w for the rows it makes, w (..., width) for those it is given, and what <w, x> lacks (...).

        None: there is no such w.
        """
        return None

    def fit(self, _shape: Shape, _statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        """What it has to know of the dataset. Raises FeaturesError if the statistics needed are not there."""
        return EMPTY

    def after(self, _statistics: FeatureStatistics | None, _arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        """The statistics of the rows it makes; None: they are not known."""
        return None

    def placed(self, arrays: Mapping[str, Array], _place: Callable[[Array], Array]) -> Mapping[str, Array]:
        """What was fitted, for rows whose features are numbered anew; `_place` takes an array (width,) there."""
        return arrays

    def ready(self, shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        """Made ready to be applied on any thread."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, Any]:
        """As a document."""
        return asdict(self)  # type: ignore[call-overload]


def needed(statistics: FeatureStatistics | None, name: str) -> FeatureStatistics:
    """Raises FeaturesError if there are none."""
    if statistics is None:
        raise not_counted(name)
    return statistics


def not_counted(name: str) -> FeaturesError:
    """Of a map that has to know what nobody does."""
    return FeaturesError(
        "no_statistics",
        f"{name} has to know each feature of the rows it is given, and they are not counted",
        f"Let {name} come first, and have no more features than can be counted.",
    )
