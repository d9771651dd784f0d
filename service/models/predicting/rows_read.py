"""The formats of rows to predict, with their parsers; renumbers features as the model numbers them."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers import parser_of
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.streams import Scratch
from streamsvm.reader.parsers.tables.matching import Beside, ToPredict
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import INDEX, Rows

# A function that makes a parser; the labels are the model's classes.
ParserMaker = Callable[[InputOptions, InputLimits, Sequence[Label]], Parser]
FORMATS = ("libsvm", "csv", "tsv", "jsonl", *STORED_TABLES, "npz", "fasta", "text")
_SCRATCH = Path(tempfile.gettempdir())


def opened(
    options: InputOptions,
    limits: InputLimits,
    classes: Sequence[Label],
    *,
    scratch: Scratch = _SCRATCH,
    beside: Beside | None = None,
    read: Callable[[Iterable[bytes]], Iterator[Any]] | None = None,
    first_row: int = 1,
) -> Parser:
    """Make the parser of rows to predict. Of a table in text, it puts the columns that `beside` names into `beside`.

    scratch    stores inputs of formats that have to seek
    read       makes the tables of a stored format, and puts their columns into `beside`; None: the usual reader
    first_row  number of the first row of these tables, for messages about faults
    """
    parser = parser_of(options, limits, None, 1, scratch, ToPredict(classes, beside), read)
    parser.first_row = first_row
    return parser


class InputNumbering:
    """The numbering of features in an input; the model has `n_features` features, numbered from `model_base`.

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
        """Renumber the features of rows as in the model. Raises InputError if rows contradict the base, or hide it."""
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
