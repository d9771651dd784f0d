"""Translates labels to the engine's numbers and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.parsers.values import word_of
from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.rows.csr import Array


class Labels:
    """Numbers labels of any type in the order in which they first come; `known[i]` is the label with number i."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self.known: list[Any] = list(known)
        self._numbers = {label: float(number) for number, label in enumerate(self.known)}

    def encode(self, y: Array) -> Array:
        """Return the numbers (n,) float64 of labels y (n,)."""
        if y.dtype.kind in "mM" and np.isnat(y).any():
            raise ValueError("y contains NaT")
        labels, places = np.unique(y, return_inverse=True)
        return np.array([self._number(label) for label in labels])[places.reshape(len(y))]

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """Return weights by the names that a job uses for classes. ValueError for a label that no row has."""
        unknown = [label for label in weights if label not in self._numbers]
        if unknown:
            known = ", ".join(map(label_text, self.known))
            raise ValueError(f"class_weight names {label_text(unknown[0])}, a label the data does not have: {known}")
        return {number_text(self._numbers[label]): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """Return the label with this number."""
        return self.known[int(number)]

    def _number(self, label: Any) -> float:
        if label not in self._numbers:
            self._numbers[label] = float(len(self.known))
            self.known.append(label)
        return self._numbers[label]


class OwnLabels(Labels):
    """Labels that the engine keeps as they are: those of a file, and the targets of a regression."""

    def encode(self, y: Array) -> Array:
        """Return y (n,) as float64."""
        return np.asarray(y, np.float64)

    def class_weight(self, weights: Mapping[Any, float]) -> dict[str, float]:
        """Return weights by the text of labels in the file."""
        return {label if isinstance(label, str) else number_text(label): weight for label, weight in weights.items()}

    def decode(self, number: Any) -> Any:
        """Return the label of the file."""
        return number


def is_time(label: Any) -> bool:
    """Tell whether a label is a time or a duration of numpy, whose `item` can have another type."""
    return isinstance(label, np.datetime64 | np.timedelta64)


def stored(label: Any) -> Any:
    """Return a label as models have it: a time is a word."""
    return word_of(label) if is_time(label) else label


def label_text(label: Any) -> str:
    """Write a label for a message: words in quotes, numbers of numpy as Python's."""
    label = stored(label)
    return repr(label.item() if isinstance(label, np.generic) else label)


def check_balanced(kind: str) -> None:
    """Raise ValueError for any word but "balanced"."""
    if kind != "balanced":
        raise ValueError(f'class_weight is a dict, "balanced" or None, not {kind!r}')


def balanced(class_sums: Mapping[Any, float]) -> dict[Any, float]:
    """Return class weights inversely proportional to the weight that the rows of each class have together.

    class_sums  class -> the sum of its rows' weights, or their number; a class with 0 gets the weight 1
    """
    total = sum(class_sums.values())
    return {label: total / (len(class_sums) * weight) if weight else 1.0 for label, weight in class_sums.items()}
