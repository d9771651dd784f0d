"""Adds a constant feature to each row: after all other features (`Bias`), or before them (`LeadingBias`)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Features, Shape
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import INDEX, VALUE, Array


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
        column, value = INDEX.type(shape.width), VALUE.type(self.value)

        def apply(rows: Features) -> Features:
            ends = rows.indptr[1:]
            return Features(
                rows.indptr + np.arange(len(rows.indptr)),
                np.insert(rows.indices, ends, column),
                np.insert(rows.values, ends, value),
            )

        return apply


@dataclass(frozen=True)
class LeadingBias(Bias):
    """Inserts a feature of constant value with number 0; the numbers of all other features grow by 1.

    It replaces `Bias` while a dataset is being imported, since the number of features is not known yet.
    """

    def folded(self, w: Array, _arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        return w[..., 1:], w[..., 0] * float(VALUE.type(self.value))

    def ready(self, _shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        value = VALUE.type(self.value)

        def apply(rows: Features) -> Features:
            begins = rows.indptr[:-1]
            return Features(
                rows.indptr + np.arange(len(rows.indptr)),
                np.insert(rows.indices + 1, begins, 0),
                np.insert(rows.values, begins, value),
            )

        return apply


def with_bias_last(w: Array) -> Array:
    """Turn w (width, ...) for rows of `LeadingBias` into w for rows of `Bias`: the first weight becomes the last."""
    return np.roll(w, -1, axis=0)
