"""Products of two features: a polynomial kernel of degree 2 at linear cost.

Chang, Hsieh, Chang, Ringgaard, Lin, "Training and testing low-degree polynomial data mappings via linear SVM", JMLR
2010. Too many pairs are hashed, with random signs: some share a feature number, but inner products are unbiased.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.pairs_kernel import make_hashed_pairs, make_pairs
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array


@dataclass(frozen=True)
class Pairs(FeatureMap):
    """Appends x_i x_j for all i < j to the features, as scikit-learn's PolynomialFeatures(interaction_only) does."""

    bits: int = option(
        20, "pairs are hashed to 2^bits numbers; if there are no more pairs, none shares one", ge=1, le=28
    )
    squares: bool = option(False, "x_i x_i of each feature, too")

    expands = needs_numbers = True

    def is_exact(self, shape: Shape) -> bool:
        """Whether pairs are not hashed, since 2^bits numbers suffice to give each pair its own."""
        return shape.width * (shape.width + 1) // 2 <= 1 << self.bits

    def width(self, shape: Shape) -> int:
        pairs = shape.width * (shape.width + 1) // 2 if self.is_exact(shape) else 1 << self.bits
        return shape.width + pairs

    def most_values(self, lengths: Array) -> Array:
        return lengths + lengths * (lengths + 1) // 2

    def check(self, shape: Shape) -> None:
        if self.width(shape) > np.iinfo(INDEX).max:
            raise FeaturesError("features_range", f"{shape.width} features have too many pairs", "Hash to fewer bits.")

    def own_bytes(self, shape: Shape) -> int:
        return 0 if self.is_exact(shape) else 4 << self.bits

    def ready(self, shape: Shape, _arrays: Mapping[str, Array]) -> Apply:
        is_exact, thread = self.is_exact(shape), threading.local()

        def apply(rows: Features) -> Features:
            most = int(self.most_values(np.diff(rows.indptr)).sum())
            indptr, indices, values = np.empty(rows.n_rows + 1, INDPTR), np.empty(most, INDEX), np.empty(most, VALUE)
            if is_exact:
                end = make_pairs(*rows, shape.width, self.squares, indptr, indices, values)
            else:
                # Position of each hashed number in the current row; all -1 between rows. Each thread has an array.
                if not hasattr(thread, "place"):
                    thread.place = np.full(1 << self.bits, -1, INDEX)
                end = make_hashed_pairs(*rows, shape.width, self.squares, thread.place, indptr, indices, values)
            return Features(indptr, indices[:end], values[:end])

        return apply
