"""Features on one scale."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Shape, needed
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Scale(FeatureMap):
    """Each feature is multiplied with a factor of its own. Nothing is centred: what is 0 stays 0."""

    by: Literal["max", "deviation"] = option(
        "max", 'each feature is divided by its largest absolute value, or by its standard `"deviation"`'
    )

    keeps_count = True

    @property
    def fits(self) -> bool:
        return True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"factors": shape.width}

    def folded(self, w: Array, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w * arrays["factors"], np.zeros(w.shape[:-1])

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        found = needed(statistics, "scale").of_width(shape.width)
        size = found.largest.astype(float) if self.by == "max" else _deviation(found)
        return {"factors": np.divide(1.0, size, out=np.ones(shape.width), where=size > 0.0)}

    def after(self, statistics: FeatureStatistics | None, arrays: Mapping[str, Array]) -> FeatureStatistics | None:
        factors = arrays["factors"]
        found = needed(statistics, "scale").of_width(len(factors))
        return FeatureStatistics(
            found.n_rows, found.rows, found.sums * factors, found.squares * factors**2, found.largest * factors
        )

    def placed(self, arrays: Mapping[str, Array], place: Callable[[Array], Array]) -> Mapping[str, Array]:
        return {"factors": place(arrays["factors"])}

    def own_bytes(self, shape: Shape) -> int:
        return 8 * shape.width

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        factors = arrays["factors"]
        return lambda rows: rows._replace(values=(rows.values * factors[rows.indices]).astype(VALUE))


def _deviation(found: FeatureStatistics) -> Array:
    n_rows = max(1, found.n_rows)
    return np.sqrt(np.maximum(found.squares / n_rows - (found.sums / n_rows) ** 2, 0.0))
