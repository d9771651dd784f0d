"""Maps that bring features to a common scale, and rows to norm 1."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.features.maps_kernel import make_unit_rows
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, Shape, needed
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Scale(FeatureMap):
    """Multiplies the values of each feature f by factors[f]. Features are not centred, so zeros stay zeros."""

    by: Literal["max", "deviation"] = option(
        "max", 'each feature is divided by its largest absolute value, or by its standard `"deviation"`'
    )

    keeps_statistics = True

    @property
    def needs_statistics(self) -> bool:
        return True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"factors": shape.width}

    def folded(self, w: Array, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w * arrays["factors"], np.zeros(w.shape[:-1])

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        counts = needed(statistics, "scale").of_width(shape.width)
        size = counts.largest.astype(float) if self.by == "max" else _deviation(counts)
        return {"factors": np.divide(1.0, size, out=np.ones(shape.width), where=size > 0.0)}

    def after(self, statistics: FeatureStatistics | None, arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        factors = arrays["factors"]
        before = needed(statistics, "scale").of_width(len(factors))
        return FeatureStatistics(
            before.n_rows, before.rows, before.sums * factors, before.squares * factors**2, before.largest * factors
        )

    def renumbered(self, arrays: Mapping[str, Array], place: Callable[[Array], Array]) -> Mapping[str, Array]:
        return {"factors": place(arrays["factors"])}

    def own_bytes(self, shape: Shape) -> int:
        return 8 * shape.width

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        factors = arrays["factors"]

        def apply(rows: Features) -> Features:
            with np.errstate(over="ignore"):  # the caller of the maps refuses infinite values
                return rows._replace(values=(rows.values * factors[rows.indices]).astype(VALUE))

        return apply


def _deviation(counts: FeatureStatistics) -> Array:
    n_rows = max(1, counts.n_rows)
    return np.sqrt(np.maximum(counts.squares / n_rows - (counts.sums / n_rows) ** 2, 0.0))


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
