"""Features of strings of bases: a feature for each substring of j bases (j-mer) at each position of the string.

The weighted-degree kernel (Raetsch, Sonnenburg 2004; Sonnenburg, Franc, "COFFIN", ICML 2010, section 4) counts the
j-mers, j = 1 .. degree, that two strings share at the same position. With beta_j = 2 (d - j + 1) / (d (d + 1)), d the
degree,

    k(x, z) = sum_j beta_j sum_l [x(l .. l + j - 1) = z(l .. l + j - 1)]

is the inner product of rows with a feature of value sqrt(beta_j) for each j-mer at each position l, numbered

    l S + sum_{i < j} 4^i + code,    S = sum_{i <= d} 4^i,    code: the bases as digits of base 4

Rows are scaled to norm 1. A j-mer with an unknown base makes no feature.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape
from streamsvm.storage.features.weighted_degree_kernel import make_mers
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import BASES_A_WORD, INDEX, INDPTR, VALUE, Array


@dataclass(frozen=True)
class WeightedDegree(FeatureMap):
    """Maps strings of bases, all of one length, to their j-mers."""

    degree: int = option(8, "length of the longest strings that are compared", ge=1, le=12)

    expands = of_strings = True

    def check(self, shape: Shape) -> None:
        if self.width(shape) > np.iinfo(INDEX).max:
            raise FeaturesError(
                "features_range",
                f"strings of {shape.strings} bases have {self.width(shape)} features at degree {self.degree}",
                f"Ask for a smaller degree: at most {np.iinfo(INDEX).max} features can be numbered.",
            )

    def width(self, shape: Shape) -> int:
        return shape.strings * _offsets(self.degree)[-1]

    def most_values(self, lengths: Array) -> Array:
        # Each base of a word begins at most one j-mer of each length.
        return lengths * BASES_A_WORD * self.degree

    def mean_square(self, _before: float) -> float:
        return 1.0

    def ready(self, shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        offsets, length = np.array(_offsets(self.degree), np.int64), shape.strings
        weights = np.sqrt(2.0 * (self.degree - np.arange(self.degree)) / (self.degree * (self.degree + 1.0)))
        most = sum(max(0, length - j) for j in range(self.degree))

        def apply(rows: Features) -> Features:
            indptr = np.empty(rows.n_rows + 1, INDPTR)
            indices, values = np.empty(rows.n_rows * most, INDEX), np.empty(rows.n_rows * most, VALUE)
            end = make_mers(*rows, length, weights, offsets, indptr, indices, values)
            return Features(indptr, indices[:end], values[:end])

        return apply


def _offsets(degree: int) -> list[int]:
    """Return the first feature number of j-mers at position 0, for j = 1 .. degree, and last S (see the module)."""
    return [sum(4**i for i in range(1, j)) for j in range(1, degree + 2)]
