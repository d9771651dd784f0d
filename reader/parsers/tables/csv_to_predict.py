"""Reads CSV and TSV to predict: `column_match` finds the columns that the model was trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.column_match import Match, label_place, match_columns
from streamsvm.reader.parsers.tables.columns import Columns, Heading
from streamsvm.reader.parsers.tables.csv import CsvParser, Faults
from streamsvm.reader.parsers.tables.csv_fields import FieldReader
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.storage.machine.long_work import LARGE_BYTES
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import LABEL, Array

_ANOTHER = "\n"  # stands for a label that the model does not have


class WideHead(NamedTuple):
    """The columns of a table with these options, as its long first line names them."""

    options: InputOptions
    line: bytes
    reader: FieldReader
    heading: Heading
    columns: Columns
    match: Match

    def is_of(self, options: InputOptions, line: bytes) -> bool:
        """Whether it is of the same options and the same line."""
        return self.options.like is options.like and self.options == options and self.line == line


# The last one: clients send the same names with each prediction, and to match 300,000 takes half a second.
_last: WideHead | None = None


class CsvToPredict(CsvParser):
    """A parser whose options.like is the model's `input`, or {"n_features": n}.

    Labels serve to judge predictions, and none is a fault: a field that is no label becomes NaN.

    classes  labels of the model. A label that is a string becomes its place in `classes`; a string that is no class
             becomes their number
    match    of the table's columns with the model's, set when the first line has been read
    """

    def __init__(self, options: InputOptions, limits: Limits, classes: Sequence[Label] = ()) -> None:
        self._codes = {label: float(code) for code, label in enumerate(classes) if isinstance(label, str)}
        super().__init__(options, limits, LabelNames("string" if self._codes else "number"), labelled=False)
        self.match: Match | None = None
        self._looked_below = False  # whether what the first line is depends on the lines below it

    def _settle_line(self, line: bytes, begin: int, following: int, end: int) -> int:
        global _last
        if len(line) < LARGE_BYTES:
            return super()._settle_line(line, begin, following, end)
        known = _last
        if known is not None and known.is_of(self._options, line):
            self._reader, self._heading, self._columns, self.match = known[2:]
            self.settle_columns(following, end)
            return following
        first_row = super()._settle_line(line, begin, following, end)
        if self.match and self._reader and self.has_names and not self._looked_below:
            _last = WideHead(self._options, line, self._reader, self._heading, self._columns, self.match)
        return first_row

    def _below(self, n_columns: int, begin: int, end: int) -> list[list[bytes]]:
        self._looked_below = True
        return super()._below(n_columns, begin, end)

    def _find_columns(self) -> Columns:
        """Find the labels alone: weights and groups are not read."""
        wanted, heading = self._options.label_column, self._heading
        label = label_place(self._options.like or {}, heading.names)
        return Columns(label if wanted is None else heading.place(wanted, "label_column"), None, None)

    def feature_columns(self, begin: int, end: int) -> MixedColumns:
        like, heading, said_unnamed = self._options.like, self._heading, self._options.header == "no"
        assert like is not None
        if self.match is not None:
            return self.match.columns
        try:
            self.match = match_columns(like, heading.names, heading.n_columns, self._columns.aside, said_unnamed)
        except InputError as error:
            error.line = 1
            raise
        return self.match.columns

    def expected(self, label: Array) -> Array:
        """(n,): the labels that the numbers `label` (n,) of rows stand for, NaN or "" where a row has none."""
        if not self._codes:
            return label
        places = np.where(np.isnan(label), len(self._codes) + 1, label).astype(np.int64)
        return np.array([*self._codes, _ANOTHER, ""])[places]

    def _aside(self, fields: Fields, column: int, faults: Faults) -> Array:
        return super()._aside(fields, column, {} if column == self._columns.label else faults)

    def _texts(self, fields: Fields, column: int, faults: Faults) -> list[str]:
        return super()._texts(fields, column, {} if column == self._columns.label else faults)

    def _labels_of(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        label = self._columns.label
        if label not in texts:
            return super()._labels_of(numbers, texts, keep)
        other = float(len(self._codes))
        codes = [self._codes.get(text, other) if text else np.nan for text in texts[label]]
        return np.array(codes, LABEL)[keep]
