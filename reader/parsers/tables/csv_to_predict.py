"""Reads CSV and TSV to predict: `column_match` finds the columns that the model was trained on."""

from collections.abc import Sequence
from typing import NamedTuple

from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.column_match import Match
from streamsvm.reader.parsers.tables.columns import Columns, Heading
from streamsvm.reader.parsers.tables.csv import CsvParser, Faults
from streamsvm.reader.parsers.tables.csv_fields import FieldReader, decoded
from streamsvm.reader.parsers.tables.judge import TableToPredict, judged_columns, matched
from streamsvm.reader.parsers.tables.mixed import Maker
from streamsvm.reader.parsers.tables.mixed_columns import MixedColumns
from streamsvm.reader.parsers.tables.mixed_lines import MixedLines
from streamsvm.storage.machine.long_work import LARGE_BYTES
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import Array, Rows


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


class CsvToPredict(CsvParser, TableToPredict):
    """A parser whose options.like is the model's `input`, or {"n_features": n}.

    A field that is no label becomes NaN.

    classes  labels of the model, see `Judge`
    beside   takes further columns, as texts
    """

    def __init__(
        self, options: InputOptions, limits: Limits, classes: Sequence[Label] = (), beside: Beside | None = None
    ) -> None:
        TableToPredict.__init__(self, classes)
        self._beside = beside or Beside()
        CsvParser.__init__(self, options, limits, LabelNames(self.judge.type), labelled=False)
        self._looked_below = False  # whether what the first line is depends on the lines below it

    def _settle_line(self, line: bytes, begin: int, following: int, end: int) -> int:
        global _last
        if len(line) < LARGE_BYTES or self._beside.names:
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
        return judged_columns(self._options, self._heading)

    def feature_columns(self, begin: int, end: int) -> MixedColumns:
        if self.match is None:
            self.match = matched(self._options, self._heading, self._columns, self._beside.names)
        return self.match.columns

    def _made(self, lines: MixedLines, maker: Maker, is_text_: bool) -> Rows:
        rows = super()._made(lines, maker, is_text_)
        if self._beside.names:
            text, places = lines.text(self._window.text, self._window.filled), self._beside.names
            fields = (lines.fields(text, place) for place in self._heading.places_of(places, "keep"))
            self._beside.put([decoded([each[row] for row in range(len(each))]) for each in fields])
        return rows

    def _aside(self, fields: Fields, column: int, faults: Faults) -> Array:
        return super()._aside(fields, column, {} if column == self._columns.label else faults)

    def _texts(self, fields: Fields, column: int, faults: Faults) -> list[str]:
        return super()._texts(fields, column, {} if column == self._columns.label else faults)

    def _labels_of(self, numbers: dict[int, Array], texts: dict[int, list[str]], keep: Array) -> Array:
        label = self._columns.label
        if label not in texts:
            return super()._labels_of(numbers, texts, keep)
        return self.judge.codes(texts[label])[keep]
