"""Features under the numbers that they have in the input."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamsvm.storage.features.rows import Apply, FeatureMap, Shape
from streamsvm.storage.rows.csr import INDEX, Array


@dataclass(frozen=True)
class Renumbered(FeatureMap):
    """Of a dataset that has numbered its features anew: `numbers` (width,) are those of the input."""

    keeps_count = True

    def sizes(self, shape: Shape) -> Mapping[str, int]:
        return {"numbers": shape.width}

    def ready(self, _shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        numbers = arrays["numbers"].astype(INDEX)
        return lambda rows: rows._replace(indices=numbers[rows.indices])
