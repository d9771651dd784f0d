"""Words that are in few documents count more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Features, Shape, needed
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.features.unit import unit_rows
from streamsvm.storage.features.unit_kernel import weigh
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Idf(FeatureMap):
    """Features times log((1 + n) / (1 + df)) + 1, then rows of length 1: scikit-learn's TfidfTransformer.

    n rows, of which df have the feature.
    """

    @property
    def fits(self) -> bool:
        return True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"weights": shape.width}

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        found = needed(statistics, "idf").of_width(shape.width)
        return {"weights": np.log((1.0 + found.n_rows) / (1.0 + found.rows)) + 1.0}

    def placed(self, arrays: Mapping[str, Array], place: Callable[[Array], Array]) -> Mapping[str, Array]:
        return {"weights": place(arrays["weights"])}

    def mean_square(self, _before: float) -> float:
        return 1.0

    def own_bytes(self, shape: Shape) -> int:
        return 8 * shape.width

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        weights = arrays["weights"]

        def apply(rows: Features) -> Features:
            values = np.empty(len(rows.values), VALUE)
            weigh(rows.indices, rows.values, weights, values)
            return unit_rows(rows._replace(values=values))

        return apply
