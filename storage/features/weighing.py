"""Maps that keep the features of rows: a constant feature beside them, factors for each feature, rows of length 1."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamsvm.storage.features.maps_kernel import make_unit_rows, weigh
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeatureStatistics, Shape, needed
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Bias(FeatureMap):
    """Appends a feature of constant value, numbered after all others."""

    value: float = option(1.0, "of the feature", ge=-1e9, le=1e9)

    def folded(self, w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w[..., :-1], w[..., -1] * float(VALUE.type(self.value))

    def width(self, shape: Shape) -> int:
        return shape.width + 1

    def most_values(self, lengths: Array) -> Array:
        return lengths + 1

    def mean_square(self, before: float) -> float:
        return before + self.value**2

    def ready(self, shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        return lambda rows: _with_one(rows, rows.indptr[1:], shape.width, self.value)


@dataclass(frozen=True)
class LeadingBias(Bias):
    """Inserts a feature of constant value with number 0; the numbers of all other features grow by 1.

    It replaces `Bias` while a dataset is being imported, since the number of features is not known yet.
    """

    def folded(self, w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w[..., 1:], w[..., 0] * float(VALUE.type(self.value))

    def ready(self, _shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        return lambda rows: _with_one(rows._replace(indices=rows.indices + 1), rows.indptr[:-1], 0, self.value)


def _with_one(rows: Features, at: Array, column: int, value: float) -> Features:
    """Insert a value into each row, at the positions `at` (n_rows,) of `rows.values`, as the feature `column`."""
    indptr = rows.indptr + np.arange(len(rows.indptr))
    return Features(indptr, np.insert(rows.indices, at, column), np.insert(rows.values, at, value))


def with_bias_last(w: Array) -> Array:
    """Turn w (width, ...) for rows of `LeadingBias` into w for rows of `Bias`: the first weight becomes the last."""
    return np.roll(w, -1, axis=0)


class _Weighing(FeatureMap):
    """A map with a number for each feature, fitted to its statistics: the array `own`."""

    needs_statistics = True
    own: ClassVar[str]

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {self.own: shape.width}

    def renumbered(self, arrays: Mapping[str, Array], place: Callable[[Array], Array]) -> Mapping[str, Array]:
        return {self.own: place(arrays[self.own])}

    def own_bytes(self, shape: Shape) -> int:
        return 8 * shape.width


@dataclass(frozen=True)
class Scale(_Weighing):
    """Multiplies the values of each feature f by factors[f]. Features are not centred, so zeros stay zeros."""

    by: Literal["max", "deviation"] = option(
        "max", 'each feature is divided by its largest absolute value, or by its standard `"deviation"`'
    )

    keeps_statistics = True
    own = "factors"

    def folded(self, w: Array, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w * arrays["factors"], np.zeros(w.shape[:-1])

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        counts = needed(statistics, "scale").of_width(shape.width)
        size = counts.largest.astype(float)
        if self.by == "deviation":
            n_rows = max(1, counts.n_rows)
            size = np.sqrt(np.maximum(counts.squares / n_rows - (counts.sums / n_rows) ** 2, 0.0))
        return {"factors": np.divide(1.0, size, out=np.ones(shape.width), where=size > 0.0)}

    def after(self, statistics: FeatureStatistics | None, arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        factors = arrays["factors"]
        before = needed(statistics, "scale").of_width(len(factors))
        return FeatureStatistics(
            before.n_rows, before.rows, before.sums * factors, before.squares * factors**2, before.largest * factors
        )

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        factors = arrays["factors"]

        def apply(rows: Features) -> Features:
            with np.errstate(over="ignore"):  # the caller of the maps refuses infinite values
                return rows._replace(values=(rows.values * factors[rows.indices]).astype(VALUE))

        return apply


@dataclass(frozen=True)
class Unit(FeatureMap):
    """Divides each row by its norm; a row of norm 0 stays as it is."""

    def mean_square(self, _before: float) -> float:
        return 1.0

    def ready(self, _shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        return unit_rows


def unit_rows(rows: Features) -> Features:
    """Return the rows divided by their norms; a row of norm 0 stays as it is."""
    values = np.empty(len(rows.values), VALUE)
    make_unit_rows(rows.indptr, rows.values, values)
    return rows._replace(values=values)


@dataclass(frozen=True)
class Idf(_Weighing):
    """Multiplies features by weights, then scales rows to norm 1, as scikit-learn's TfidfTransformer does.

    The weight of a feature is log((1 + n) / (1 + df)) + 1, where df of the dataset's n rows have the feature.
    """

    own = "weights"

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        counts = needed(statistics, "idf").of_width(shape.width)
        return {"weights": np.log((1.0 + counts.n_rows) / (1.0 + counts.rows)) + 1.0}

    def mean_square(self, _before: float) -> float:
        return 1.0

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        weights = arrays["weights"]

        def apply(rows: Features) -> Features:
            values = np.empty(len(rows.values), VALUE)
            weigh(rows.indices, rows.values, weights, values)
            return unit_rows(rows._replace(values=values))

        return apply
