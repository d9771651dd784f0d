"""Maps that make longer rows, which are mapped at each visit: kernels at linear cost."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.maps_kernel import make_hashed_pairs, make_mers, make_pairs, project
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, FeatureStatistics, Shape, needed
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import BASES_A_WORD, INDEX, INDPTR, VALUE, Array

_MOST_ENTRIES = 1 << 28  # of omega: 1 GiB


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Random Fourier features: a Gaussian kernel at linear cost.

    Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007: sqrt(2 / D) cos(<omega_j, x> + b_j),
    j < D, with omega_j from N(0, 2 gamma I) and b_j from [0, 2 pi): products of mapped rows are near
    exp(-gamma |x - z|^2). Each process makes omega and b from the seed: they are not stored.
    """

    dimension: int = option(2048, "features that are made, D", ge=1, le=1 << 20)
    gamma: float | None = option(
        None, "of the kernel exp(-gamma |x - z|^2); null: 1 / (features x variance of all values)", gt=0, le=1e12
    )
    seed: int = option(0, "of the random numbers", ge=0)

    expands = needs_numbers = True

    @property
    def needs_statistics(self) -> bool:
        return self.gamma is None

    def check(self, shape: Shape) -> None:
        if shape.width * self.dimension > _MOST_ENTRIES:
            raise FeaturesError(
                "features_range",
                f"fourier from {shape.width} features to {self.dimension} needs {shape.width * self.dimension} numbers",
                f"Ask for a smaller dimension: {_MOST_ENTRIES // max(1, shape.width)} or less.",
            )

    def width(self, _shape: Shape) -> int:
        return self.dimension

    def most_values(self, lengths: Array) -> Array:
        return np.full_like(lengths, self.dimension)

    def sizes(self, _shape: Shape) -> Mapping[str, int]:
        return {"gamma": 1}

    def fit(self, shape: Shape, statistics: FeatureStatistics | None) -> Mapping[str, Array]:
        return {"gamma": np.array([self.gamma or _scale(needed(statistics, "fourier without gamma"), shape)])}

    def mean_square(self, _before: float) -> float:
        return 1.0

    def own_bytes(self, shape: Shape) -> int:
        return 4 * shape.width * self.dimension

    def ready(self, shape: Shape, arrays: Mapping[str, Array]) -> Apply:
        omega, b = self.random(shape, float(arrays["gamma"][0]))
        numbers, size = np.arange(self.dimension, dtype=INDEX), VALUE.type(np.sqrt(2.0 / self.dimension))

        def apply(rows: Features) -> Features:
            z = np.empty((rows.n_rows, self.dimension), VALUE)
            project(*rows, omega, b, z)
            with np.errstate(invalid="ignore"):  # the caller of the maps refuses values that overflow
                np.cos(z, out=z)
            z *= size
            indptr = np.arange(rows.n_rows + 1, dtype=INDPTR) * self.dimension
            return Features(indptr, np.tile(numbers, rows.n_rows), z.reshape(-1))

        return apply

    def random(self, shape: Shape, gamma: float) -> tuple[Array, Array]:
        """Draw omega (width, D) and b (D,), float32. omega[f] does not depend on the width."""
        rng = np.random.default_rng(self.seed)
        b = rng.uniform(0.0, 2.0 * np.pi, self.dimension).astype(VALUE)
        omega = np.sqrt(2.0 * gamma) * rng.standard_normal((shape.width, self.dimension), VALUE)
        return omega.astype(VALUE), b


def _scale(statistics: FeatureStatistics, shape: Shape) -> float:
    """Return gamma as scikit-learn's "scale" defines it: 1 / (features x variance of all values); 1 for variance 0."""
    n_values = max(1, statistics.n_rows * (shape.width - shape.base))
    variance = float(statistics.squares.sum()) / n_values - (float(statistics.sums.sum()) / n_values) ** 2
    return 1.0 / ((shape.width - shape.base) * variance) if variance > 0.0 else 1.0


@dataclass(frozen=True)
class Pairs(FeatureMap):
    """Appends x_i x_j for all i < j to the features, as scikit-learn's PolynomialFeatures(interaction_only) does.

    Products of two features: a polynomial kernel of degree 2 at linear cost.

    Chang, Hsieh, Chang, Ringgaard, Lin, "Training and testing low-degree polynomial data mappings via linear SVM", JMLR
    2010. If there are too many pairs, they are hashed with signs: some share a number, and products of rows stay
    unbiased.
    """

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


@dataclass(frozen=True)
class WeightedDegree(FeatureMap):
    """Maps strings of bases, all of one length, to their j-mers: their substrings and the positions of these.

    The weighted-degree kernel (Raetsch, Sonnenburg 2004; Sonnenburg, Franc, "COFFIN", ICML 2010, section 4) counts the
    j-mers, j = 1 .. degree, that two strings share at the same position. With beta_j = 2 (d - j + 1) / (d (d + 1)),
    d the degree,

        k(x, z) = sum_j beta_j sum_l [x(l .. l + j - 1) = z(l .. l + j - 1)]

    is the inner product of rows with a feature of value sqrt(beta_j) for each j-mer at each position l, numbered

        l S + sum_{i < j} 4^i + code,    S = sum_{i <= d} 4^i,    code: the bases as digits of base 4

    Rows are scaled to length 1. A j-mer with an unknown base makes no feature.
    """

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
