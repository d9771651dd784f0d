"""Scales rows to length 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.maps_kernel import make_unit_rows
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, Shape
from streamsvm.storage.rows.csr import VALUE, Array


@dataclass(frozen=True)
class Unit(FeatureMap):
    """Divides each row by its norm; a row without features stays as it is."""

    def mean_square(self, _before: float) -> float:
        return 1.0

    def ready(self, _shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        return unit_rows


def unit_rows(rows: Features) -> Features:
    """The rows divided by their norms."""
    values = np.empty(len(rows.values), VALUE)
    make_unit_rows(rows.indptr, rows.values, values)
    return rows._replace(values=values)
