"""Reads JSON lines: tables, rows to predict, and documents in a column. `json_lines` has the format."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.csv_to_predict import CsvToPredict
from streamsvm.reader.parsers.tables.json_lines import JsonLines, PlacedRejected
from streamsvm.reader.parsers.text.table import TextTableParser
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import Rows

if TYPE_CHECKING:
    from streamsvm.reader.parsers import Parser


class _Jsonl:
    """Gives a parser of CSV the lines as CSV, and places its faults in the lines."""

    rejected: Any
    _json: JsonLines

    def _set_lines(self, limits: Limits, skip: bool, known: Collection[str] | None, keeps_ends: bool = False) -> None:
        self.rejected = PlacedRejected(skip, lambda error: self._json.placed(error))
        self._json = JsonLines(limits.max_line_bytes, self.rejected.add, known, keeps_ends)

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        try:
            yield from super().parse_chunks(self._json.as_csv(chunks))  # type: ignore[misc]
        except InputError as error:
            raise self._json.placed(error) from error.__cause__


class JsonlParser(_Jsonl, CsvParser):
    """A `Parser` of tables."""

    def __init__(self, options: InputOptions, limits: Limits, names: LabelNames | None = None) -> None:
        CsvParser.__init__(self, _of_csv(options), limits, names)
        self._set_lines(limits, options.on_bad_row == "skip", None)

    def _word_columns(self, begin: int, end: int) -> set[int]:
        # Strings are words, even if all are digits.
        return {place for place, name in enumerate(self._json.names) if name in self._json.with_text}


class JsonlToPredict(_Jsonl, CsvToPredict):
    """A parser of rows to predict; see `CsvToPredict`."""

    def __init__(
        self, options: InputOptions, limits: Limits, classes: Sequence[Label] = (), beside: Beside | None = None
    ) -> None:
        CsvToPredict.__init__(self, _of_csv(options), limits, classes, beside)
        columns = (options.like or {}).get("columns", ())
        self._set_lines(limits, False, {*columns, *self._beside.names})


class JsonlTextParser(_Jsonl, TextTableParser):
    """A `Parser` of documents in a column."""

    def __init__(
        self,
        options: InputOptions,
        limits: Limits,
        names: LabelNames | None = None,
        threads: int = 1,
        *,
        labelled: bool = True,
    ) -> None:
        TextTableParser.__init__(self, _of_csv(options), limits, names, threads, labelled=labelled)
        known = None if labelled else {options.text_column or "", *self.beside.names}
        self._set_lines(limits, options.on_bad_row == "skip", known, keeps_ends=True)


def jsonl_parser(options: InputOptions, limits: Limits, names: LabelNames, threads: int) -> "Parser":
    """The parser of rows to train on."""
    if options.text_column is not None:
        return JsonlTextParser(options, limits, names, threads)
    return JsonlParser(options, limits, names)


def _of_csv(options: InputOptions) -> InputOptions:
    return replace(options, format="csv", delimiter="comma", header="yes", decimal="point", encoding="utf-8")
