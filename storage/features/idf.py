"""Weights features by inverse document frequency: a word that few documents contain gets a larger weight."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.maps_kernel import weigh
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, Shape, needed
from streamsvm.storage.features.scale import unit_rows
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Idf(FeatureMap):
    """Multiplies features by weights, then scales rows to norm 1, as scikit-learn's TfidfTransformer does.

    The weight of a feature is log((1 + n) / (1 + df)) + 1, where df of the dataset's n rows have the feature.
    """

    @property
    def needs_statistics(self) -> bool:
        return True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"weights": shape.width}

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        counts = needed(statistics, "idf").of_width(shape.width)
        return {"weights": np.log((1.0 + counts.n_rows) / (1.0 + counts.rows)) + 1.0}

    def renumbered(self, arrays: Mapping[str, Array], place: Callable[[Array], Array]) -> Mapping[str, Array]:
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
