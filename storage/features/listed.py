"""Features by their place in a list of those that there are."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape
from streamsvm.storage.rows.csr import INDEX, Array


@dataclass(frozen=True)
class Listed(FeatureMap):
    """The map of a model whose features are far apart: it has weights of `features` (count,), ascending.

    All others are left out.
    """

    count: int

    keeps_count = True

    def width(self, _shape: Shape) -> int:
        return self.count

    def shape(self, given: Shape) -> Shape:
        return Shape(self.count)

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        return {"features": self.count}

    def check_fitted(self, shape: Shape, arrays: Mapping[str, Array]) -> None:
        features = arrays["features"]
        is_whole = (features % 1 == 0).all() and (features[1:] > features[:-1]).all()
        if not is_whole or (len(features) and not (features[0] >= 0 and features[-1] < shape.width)):
            raise FeaturesError("features_range", "the features of a model are not listed in their order")

    def own_bytes(self, _shape: Shape) -> int:
        return INDEX.itemsize * self.count

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        features = arrays["features"].astype(INDEX)

        def apply(rows: Features) -> Features:
            places = np.searchsorted(features, rows.indices)
            known = np.zeros(len(places), bool)
            inside = places < len(features)
            known[inside] = features[places[inside]] == rows.indices[inside]
            if known.all():
                return rows._replace(indices=places.astype(INDEX))
            ends = np.concatenate(([0], np.cumsum(known)))[rows.indptr]
            return Features(ends, places[known].astype(INDEX), rows.values[known])

        return apply
