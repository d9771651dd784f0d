"""The manifest's counts of the rows' weights."""

from dataclasses import dataclass

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import TARGET


@dataclass(frozen=True)
class WeightCounts:
    """The smallest weight, the sum, the largest, and how many are 0 in training.

    Datasets store weights as float64. Training rounds each to float32, as a segment stores it.
    """

    least: float
    total: float
    largest: float
    zeros: int

    @classmethod
    def of(cls, weight: Array) -> "WeightCounts":
        """The counts of weights (n,), n > 0."""
        zeros = len(weight) - int((weight.astype(TARGET) > 0).sum())
        return cls(float(weight.min()), float(weight.sum()), float(weight.max()), zeros)

    @property
    def largest_trained(self) -> float:
        """The largest weight, rounded as training rounds it."""
        return float(TARGET.type(self.largest))

    @classmethod
    def of_ones(cls, n_rows: int) -> "WeightCounts":
        """The counts of rows without weights, each of which has weight 1."""
        return cls(1.0, float(n_rows), 1.0, 0)

    def with_(self, other: "WeightCounts") -> "WeightCounts":
        """The counts of these rows and the others together."""
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return WeightCounts(least, self.total + other.total, largest, self.zeros + other.zeros)

    def without(self, other: "WeightCounts") -> "WeightCounts":
        """The counts after removing rows with the counts `other`; least and largest are then only bounds."""
        total = max(self.total - other.total, 0.0)
        return WeightCounts(self.least, total, self.largest, self.zeros - other.zeros)
