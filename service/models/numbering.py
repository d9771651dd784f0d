"""Renumbers the features of rows to predict as the model numbers them."""

from dataclasses import replace
from typing import Literal

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import IndexBase
from streamsvm.storage.rows.csr import INDEX, Rows

# Key of `Model.about`. False: the model was trained on a matrix, whose columns have places but no numbers.
NUMBERED = "numbered"


class Numbering:
    """How one input numbers its features; the model has `n_features` features, numbered from `model_base`.

    index_base   number of the first feature in the input; "auto": the same as in the training data
    is_numbered  the training data numbered their features; if not, "auto" finds the first number in the input
    base         attribute: the smallest number that the input may contain, 0 or 1
    """

    def __init__(self, index_base: IndexBase, model_base: int, n_features: int, is_numbered: bool = True) -> None:
        self.base: Literal[0, 1] = (1 if model_base else 0) if index_base == "auto" else index_base
        self._model_base = model_base
        self._shift, self._n_features = model_base - self.base, n_features
        self._is_open, self._is_numbered = index_base == "auto" and model_base == 0, is_numbered

    @property
    def settled(self) -> Literal[0, 1] | None:
        """The number of the first feature in all further rows; None while no row has shown it."""
        return None if self._is_open else 1 if self._model_base > self._shift else 0

    def as_model(self, rows: Rows) -> Rows:
        """Renumber rows as the model does. Raises InputError if they contradict the base, or do not show it."""
        if self._is_open and len(rows.indices):
            self._settle(rows)
        elif self._shift < 0 and (rows.indices == 0).any():
            raise InputError("index_zero", "index 0 after rows that seemed to begin at 1")
        return self.renumbered(rows)

    def renumbered(self, rows: Rows) -> Rows:
        """Shift the indices of rows by the difference of the two bases."""
        if not self._shift:
            return rows
        # The largest index is no feature of any model: an overflow stays an unknown feature.
        indices = np.minimum(rows.indices.astype(np.int64) + self._shift, np.iinfo(INDEX).max)
        return replace(rows, indices=indices.astype(INDEX))

    def _settle(self, rows: Rows) -> None:
        """Find the base: feature 0 shows base 0; no feature 0 but one past the model's last shows base 1."""
        last, begins_at_0 = self._n_features, bool((rows.indices == 0).any())
        begins_at_1 = not begins_at_0 and int(rows.indices.max()) == last
        if not self._is_numbered and begins_at_1:
            self._shift = -1
        if not begins_at_0 and begins_at_1 == self._is_numbered:
            numbers = f"no 0 but {last}" if begins_at_1 else f"neither 0 nor {last}"
            raise InputError(
                "index_base_mismatch",
                f"the model's features are 0 to {last - 1}, these rows have {numbers}",
                hint="set index_base=1 if their first feature is number 1, index_base=0 if it is number 0",
            )
        self._is_open = not (begins_at_0 or begins_at_1)
