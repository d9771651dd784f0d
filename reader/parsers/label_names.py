"""Labels that are strings: rows hold their numbers."""

from collections.abc import Sequence

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import LabelType
from streamsvm.storage.rows.csr import LABEL, Array

MOST_NAMES = 10_000
MOST_CHARACTERS = 256


class LabelNames:
    """Numbers of names: those of a dataset first, then new ones in the order of their batches, sorted inside each.

    type    "number": labels are no strings; "string"; "auto": the parser finds out, and says it here
    known   the names so far; a name's number is its place
    """

    def __init__(self, type_: LabelType = "auto", known: Sequence[str] = ()) -> None:
        self.type = type_
        self._numbers = {name: number for number, name in enumerate(known)}

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def numbers(self, labels: Sequence[str]) -> Array:
        """Those of a batch of labels (n,), float64. InputError too_many_labels."""
        for name in sorted(set(labels) - self._numbers.keys()):
            self._numbers[name] = len(self._numbers)
        if len(self._numbers) > MOST_NAMES:
            raise InputError("too_many_labels", f"there are more than {MOST_NAMES} different labels that are strings")
        return np.fromiter(map(self._numbers.__getitem__, labels), LABEL, len(labels))
