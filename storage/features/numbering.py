"""The maps of models whose features have other numbers, or are fewer, in a dataset's blocks than in its input."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape
from streamsvm.storage.rows.csr import INDEX, Array


@dataclass(frozen=True)
class Renumbered(FeatureMap):
    """Gives the features of a dataset's blocks the numbers of the input: feature f becomes `numbers[f]`, (width,)."""

    keeps_statistics = True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"numbers": shape.width}

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        numbers = arrays["numbers"].astype(INDEX)
        return lambda rows: rows._replace(indices=numbers[rows.indices])


@dataclass(frozen=True)
class Listed(FeatureMap):
    """Gives each feature of the ascending list `features` (count,) its position in the list; drops all other features.

    It is the map of a model that has weights for these features only, since feature numbers are far apart.
    """

    count: int

    keeps_statistics = True

    def width(self, _shape: Shape) -> int:
        return self.count

    def shape(self, before: Shape) -> Shape:
        return Shape(self.count)

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        return {"features": self.count}

    def check_fitted(self, shape: Shape, arrays: Mapping[str, Array]) -> None:
        features = arrays["features"]
        is_ascending = (features % 1 == 0).all() and (features[1:] > features[:-1]).all()
        if not is_ascending or (len(features) and not (features[0] >= 0 and features[-1] < shape.width)):
            raise FeaturesError("features_range", "the list of a model's features is not ascending, or out of range")

    def own_bytes(self, _shape: Shape) -> int:
        return INDEX.itemsize * self.count

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        features = arrays["features"].astype(INDEX)

        def apply(rows: Features) -> Features:
            places = np.searchsorted(features, rows.indices)
            is_listed = np.zeros(len(places), bool)
            inside = places < len(features)
            is_listed[inside] = features[places[inside]] == rows.indices[inside]
            if is_listed.all():
                return rows._replace(indices=places.astype(INDEX))
            indptr = np.concatenate(([0], np.cumsum(is_listed)))[rows.indptr]
            return Features(indptr, places[is_listed].astype(INDEX), rows.values[is_listed])

        return apply
