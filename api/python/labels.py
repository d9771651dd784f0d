"""Labels as the engine has them, numbers, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.rows.csr import Array


class Labels:
    """Numbers the labels that come, of whatever type; `known` are those that have come, by their number."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self.known: list[Any] = list(known)
        self._numbers = {label: float(number) for number, label in enumerate(self.known)}

    def encode(self, y: Array) -> Array:
        """(n,) float64."""
        found, places = np.unique(y, return_inverse=True)
        return np.array([self._number(label) for label in found])[places.reshape(len(y))]

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """As a job names classes. ValueError for a label that there is not."""
        unknown = [label for label in weights if label not in self._numbers]
        if unknown:
            raise ValueError(f"class_weight names {unknown[0]!r}, a label the data does not have: {self.known}")
        return {number_text(self._numbers[label]): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """The label of this number."""
        return self.known[int(number)]

    def _number(self, label: Any) -> float:
        if label not in self._numbers:
            self._numbers[label] = float(len(self.known))
            self.known.append(label)
        return self._numbers[label]


class OwnLabels(Labels):
    """Those of a file, which the engine knows by itself; or the numbers that regression is to predict."""

    def encode(self, y: Array) -> Array:
        """(n,) float64."""
        return np.asarray(y, np.float64)

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """As the file has them."""
        return {label if isinstance(label, str) else number_text(label): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """As it stood in the file."""
        return number


def check_balanced(kind: str) -> None:
    """ValueError for another word than "balanced"."""
    if kind != "balanced":
        raise ValueError(f'class_weight is a dict, "balanced" or None, not {kind!r}')


def balanced(rows: Mapping[Any, float]) -> dict[Any, float]:
    """Weights of classes that have so many rows, each counting as much as it weighs; 1 where all of a class weigh 0."""
    total = sum(rows.values())
    return {label: total / (len(rows) * n) if n else 1.0 for label, n in rows.items()}
