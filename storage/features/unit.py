"""Rows of length 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from storage.csr import VALUE, Array, squared_norms
from storage.features.rows import Apply, FeatureMap, Features, Shape


@dataclass(frozen=True)
class Unit(FeatureMap):
    """Each row is divided by its norm; one without features stays as it is."""

    def mean_square(self, _before: float) -> float:
        return 1.0

    def ready(self, _shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        return unit_rows


def unit_rows(rows: Features) -> Features:
    """The rows divided by their norms."""
    norms = np.empty(rows.n_rows)
    squared_norms(rows.indptr, rows.values, norms)
    lengths = np.repeat(np.sqrt(norms), np.diff(rows.indptr))
    return rows._replace(values=(rows.values / np.where(lengths > 0.0, lengths, 1.0)).astype(VALUE))
