"""Turns a column of documents in tables of Arrow into rows of hashed n-grams. Needs pyarrow, the extra `parquet`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.label_names import LabelNames
from streamsvm.reader.parsers.tables.arrow_table import Table
from streamsvm.reader.parsers.tables.arrow_types import is_number, is_string
from streamsvm.reader.parsers.tables.columns import Heading, find_columns, find_label
from streamsvm.reader.parsers.text.hashed_text import Documents, HashedText, PlacedFault, one_text
from streamsvm.storage.rows.csr import Rows

_BATCH_ROWS = 1 << 12


class TextTablesParser(HashedText):
    """A `Parser`. A fault's `line` is the row's number.

    read  makes the tables of the bytes of an input
    """

    def __init__(
        self,
        options: InputOptions,
        limits: Limits,
        read: Callable[[Iterable[bytes]], Iterator[Table]],
        names: LabelNames | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(options, limits, names, threads)
        self._read = read
        self._headings: list[str] = []

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault, unless rows are skipped."""
        first = 1
        for table in self._read(chunks):
            self._headings = table.schema.names
            columns = self._find(table.schema)
            wanted = [self._headings[column] for column in columns if column is not None]
            for batch in table.batches(wanted, _BATCH_ROWS):
                yield from self._rows(
                    [None if k is None else batch[self._headings[k]] for k in columns], columns, first
                )
                first += batch.num_rows
        self.check_end()

    def _find(self, schema: Any) -> list[int | None]:
        """The places of documents, labels, weights and groups, None if there are none; checks their types."""
        options, names = self._options, self._headings
        if len(set(names)) < len(names):
            raise InputError("duplicate_column", "a column name stands twice")
        assert options.text_column is not None
        heading = Heading(names, len(names))
        text = heading.place(options.text_column, "text_column")
        label = find_label(options, heading)
        assert label is not None
        columns = find_columns(label, options, heading)
        if text in columns.aside:
            raise InputError("same_column", "the column of documents has labels, weights or groups, too", line=1)
        for place in (text, *columns.aside):
            kind = schema.field(place).type
            if not (is_string(kind) or (place != text and is_number(kind))):
                message = f"column {place + 1} ({names[place][:40]}) is of type {str(kind)[:40]}"
                raise InputError("column_type", message, hint="documents are strings, labels strings or numbers")
        if self._names.type == "auto":
            self._names.type = "string" if is_string(schema.field(label).type) else "number"
        return [text, columns.label, columns.weight, columns.group]

    def _rows(self, columns: Sequence[Any], places: Sequence[int | None], first: int) -> Iterator[Rows]:
        texts = [None if column is None else _bytes(column) for column in columns]
        documents = texts[0] or []
        if not documents:
            return
        faults: dict[int, PlacedFault] = {}
        numbers = [0 if place is None else place for place in places]
        at = (first + np.arange(len(documents)))[:, np.newaxis] * len(self._headings) + np.array(numbers)
        for row, document in enumerate(documents):
            if document is None:
                faults[row] = int(at[row, 0]), "missing_value", "a value is missing"
        beside = ([text or b"" for text in column] if column else () for column in texts[1:])
        # A place is the number of a cell, counted row by row.
        batch = Documents(*one_text([document or b"" for document in documents]), at, *beside)
        yield from self.give(batch, faults, self._fault)

    def _fault(self, cell: int, code: str, message: str) -> InputError:
        row, column = divmod(cell, len(self._headings))
        placed = f"row {row}, column {column + 1} ({self._headings[column][:40]}): {message}"
        return InputError(code, placed, line=row)


class TextArrowToPredict(TextTablesParser):
    """A parser of documents to predict, whose labels are not read.

    read       makes the tables of the bytes of an input
    first_row  the number of the input's first row, for faults
    """

    first_row = 1

    def __init__(
        self, options: InputOptions, limits: Limits, read: Callable[[Iterable[bytes]], Iterator[Table]]
    ) -> None:
        HashedText.__init__(self, options, limits, labelled=False)
        self._headings = []
        self._read = read

    def parse_chunks(self, chunks: Iterable[bytes]) -> Iterator[Rows]:
        """Yield the rows. InputError at the first fault."""
        first = self.first_row
        for table in self._read(chunks):
            self._headings = table.schema.names
            place = self._document_place(table.schema)
            for batch in table.batches([self._headings[place]], _BATCH_ROWS):
                documents = batch.column(batch.schema.get_field_index(self._headings[place]))
                yield from self._rows([documents, None, None, None], [place, None, None, None], first)
                first += batch.num_rows
        self.check_end()

    def _document_place(self, schema: Any) -> int:
        assert self._options.text_column is not None
        place = Heading(self._headings, len(self._headings)).place(self._options.text_column, "text_column")
        if not is_string(schema.field(place).type):
            kind = str(schema.field(place).type)[:40]
            message = f"column {place + 1} ({self._headings[place][:40]}) is of type {kind}"
            raise InputError("column_type", message, hint="documents are strings")
        return place


def _bytes(column: Any) -> list[bytes | None]:
    """The values in UTF-8, None for null; numbers as Python writes them."""
    return [None if value is None else str(value).encode() for value in column.to_pylist()]
