"""How rows to be predicted number their features, where that is not as the model does."""

from dataclasses import replace
from typing import Literal

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import IndexBase
from streamsvm.storage.rows.csr import INDEX, Rows

# In `Model.about`, False of a model of a matrix: its columns were told by their places, not by numbers that begin at 0.
NUMBERED = "numbered"


class Numbering:
    """The numbering of one input; the model has `n_features` features, numbered from `model_base`.

    told         the number of the first feature in the input; "auto": as in the data that the model was trained on
    is_numbered  those data had numbers; else the input says where it begins
    base         the least number that there may be, 0 or 1
    """

    def __init__(self, told: IndexBase, model_base: int, n_features: int, is_numbered: bool = True) -> None:
        self.base: Literal[0, 1] = (1 if model_base else 0) if told == "auto" else told
        self._shift, self._n_features = model_base - self.base, n_features
        self._is_open, self._is_numbered = told == "auto" and model_base == 0, is_numbered

    def as_model(self, rows: Rows) -> Rows:
        """The rows with the model's numbers. InputError if they seem to begin elsewhere, or nobody can tell."""
        if self._is_open and len(rows.indices):
            self._settle(rows)
        elif self._shift < 0 and (rows.indices == 0).any():
            raise InputError("index_zero", "index 0 after rows that seemed to begin at 1")
        return self.renumbered(rows)

    def renumbered(self, rows: Rows) -> Rows:
        """A copy that has not been asked yet."""
        if not self._shift:
            return rows
        moved = np.minimum(rows.indices.astype(np.int64) + self._shift, np.iinfo(INDEX).max)  # no model has the last
        return replace(rows, indices=moved.astype(INDEX))

    def _settle(self, rows: Rows) -> None:
        """A feature 0 says that they begin there; without one, a feature next to the last says that they begin at 1."""
        last, begins_at_0 = self._n_features, bool((rows.indices == 0).any())
        begins_at_1 = not begins_at_0 and int(rows.indices.max()) == last
        if not self._is_numbered and begins_at_1:
            self._shift = -1
        if not begins_at_0 and begins_at_1 == self._is_numbered:
            found = f"no 0 but {last}" if begins_at_1 else f"neither 0 nor {last}"
            raise InputError(
                "index_base_mismatch",
                f"the model's features are 0 to {last - 1}, these rows have {found}",
                hint="set index_base=1 if their first feature is number 1, index_base=0 if it is number 0",
            )
        self._is_open = not (begins_at_0 or begins_at_1)
