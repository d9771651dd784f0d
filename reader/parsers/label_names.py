"""Assigns numbers to labels that are strings, and hashes groups; rows hold these numbers and hashes.

The manifest stores the names, in the order of their numbers (`Manifest.label_names`). `RowEncoder` turns the number in
a row into the class code that training uses. The plan of a job looks the names up for the model
(`JobPlan.model_labels`), so that a model predicts names.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.options import LabelType
from streamsvm.reader.parsers.values import BLANKS, value_of
from streamsvm.storage.rows.csr import GROUP, LABEL, Array

MOST_NAMES = 10_000
MOST_CHARACTERS = 256


class LabelNames:
    """Numbers labels that are strings: those in `names` from 0 on, then new ones batch by batch, sorted in each batch.

    type   "number", "string", or "auto" until the parser has seen the first label and sets the type
    names  all names so far; the name at index i has the number i
    """

    def __init__(self, type_: LabelType = "auto", names: Sequence[str] = ()) -> None:
        self.type = type_
        self._numbers = {name: number for number, name in enumerate(names)}
        self._values = {_value_of(name): name for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def numbers(self, labels: Sequence[str]) -> Array:
        """Return the numbers (n,) float64 of a batch of labels, after new labels have got numbers.

        Raises InputError too_many_labels, or labels_alike for labels of one value, such as 1 and 1.0, or True and 1.
        """
        for name in sorted(set(labels) - self._numbers.keys()):
            self._numbers[name] = len(self._numbers)
            other = self._values.setdefault(_value_of(name), name)
            if other != name:
                one, two = excerpt(other.encode()), excerpt(name.encode())
                raise InputError("labels_alike", f"the labels {one} and {two} are one value")
        if len(self._numbers) > MOST_NAMES:
            raise InputError("too_many_labels", f"there are more than {MOST_NAMES} different labels that are strings")
        return np.fromiter(map(self._numbers.__getitem__, labels), LABEL, len(labels))


@lru_cache(1 << 16)
def group_of(text: str) -> int:
    """Return the first 8 bytes of the BLAKE2b hash of a text's value in UTF-8, little-endian: equal on all machines."""
    return int.from_bytes(blake2b(value_of(text.strip(BLANKS)).encode(), digest_size=8).digest(), "little")


def groups_of(values: Iterable[object]) -> Array:
    """Return (n,) uint64: hashes of strings or numbers; equal values have equal hashes, also 7 and 7.0."""
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values)
    return np.fromiter(map(group_of, texts), GROUP)


def _value_of(label: str) -> str:
    value = value_of(label)
    return {"True": "1", "False": "0"}.get(value, value)
