"""Random Fourier features: a Gaussian kernel at linear cost.

Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007. Feature j < D is sqrt(2 / D) cos(<omega_j,
x> + b_j), omega_j from N(0, 2 gamma I), b_j from [0, 2 pi): inner products approximate exp(-gamma |x - z|^2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.storage.features.maps_kernel import project
from streamsvm.storage.features.rows import Apply, FeatureMap, Features, FeaturesError, Shape, needed
from streamsvm.storage.features.statistics import FeatureStatistics
from streamsvm.storage.options import option
from streamsvm.storage.rows.csr import INDEX, INDPTR, VALUE, Array

_MOST_ENTRIES = 1 << 28  # of omega: 1 GiB


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Maps rows to D random Fourier features. Each process draws omega and b from the seed; they are not stored."""

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
