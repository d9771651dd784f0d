"""What a manifest says of sample weights."""

from dataclasses import dataclass

from streamsvm.storage.rows.csr import Array
from streamsvm.storage.rows.segment import TARGET


@dataclass(frozen=True)
class WeightCounts:
    """Counts of the weights of rows: the least, their sum, the largest, and how many are 0 to training.

    Weights are kept as they were given. Training has each as the nearest number that a segment's y can hold, be it for
    the row or for the bound of its dual variable.
    """

    least: float
    total: float
    largest: float
    zeros: int

    @classmethod
    def of(cls, weight: Array) -> "WeightCounts":
        """Those of weights (n,), n > 0."""
        zeros = len(weight) - int((weight.astype(TARGET) > 0).sum())
        return cls(float(weight.min()), float(weight.sum()), float(weight.max()), zeros)

    @property
    def largest_trained(self) -> float:
        """The largest as training has it."""
        return float(TARGET.type(self.largest))

    @classmethod
    def of_ones(cls, n_rows: int) -> "WeightCounts":
        """Those of rows without weights."""
        return cls(1.0, float(n_rows), 1.0, 0)

    def with_(self, other: "WeightCounts") -> "WeightCounts":
        """Those of these rows and the others."""
        least, largest = min(self.least, other.least), max(self.largest, other.largest)
        return WeightCounts(least, self.total + other.total, largest, self.zeros + other.zeros)

    def without(self, other: "WeightCounts") -> "WeightCounts":
        """Those of what is left of these rows; the least and the largest are bounds then."""
        total = max(self.total - other.total, 0.0)
        return WeightCounts(self.least, total, self.largest, self.zeros - other.zeros)
