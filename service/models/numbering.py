"""How rows to be predicted number their features, where that is not as the model does."""

from dataclasses import replace
from typing import Literal

import numpy as np

from reader.errors import InputError
from reader.options import IndexBase
from storage.csr import INDEX, Rows


class Numbering:
    """Of one input; the model has `n_features` features, numbered from `model_base`.

    told  the number of the first feature in the input; "auto": as in the data that the model was trained on
    base  what that comes to, 0 or 1
    """

    def __init__(self, told: IndexBase, model_base: int, n_features: int) -> None:
        self.base: Literal[0, 1] = (1 if model_base else 0) if told == "auto" else told
        self._shift, self._n_features = model_base - self.base, n_features
        self._is_guess = told == "auto" and model_base == 0

    def as_model(self, rows: Rows) -> Rows:
        """The rows with the model's numbers. InputError index_base_mismatch if theirs seem to begin elsewhere."""
        if self._is_guess:
            self._check(rows)
        return self.renumbered(rows)

    def renumbered(self, rows: Rows) -> Rows:
        """The same, unasked."""
        if not self._shift:
            return rows
        moved = np.minimum(rows.indices.astype(np.int64) + self._shift, np.iinfo(INDEX).max)  # no model has the last
        return replace(rows, indices=moved.astype(INDEX))

    def _check(self, rows: Rows) -> None:
        """A feature 0 says that they begin there; without one, a feature next to the last says that they do not."""
        if (rows.indices == 0).any():
            self._is_guess = False
        elif rows.indices.max(initial=-1) == self._n_features:
            raise InputError(
                "index_base_mismatch",
                f"the model's features are 0 to {self._n_features - 1}, these rows have no 0 but {self._n_features}",
                hint="set index_base=1 if their first feature is number 1, index_base=0 if it is number 0",
            )
