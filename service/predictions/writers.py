"""Writes predictions as CSV, NDJSON or Parquet: a file ("piece") for each unit's rows, and the file that joins these.

The file does not depend on the order in which pieces were made, nor on how many threads made them.
"""

import csv
import io
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from streamsvm.service.models.predicting.predictor import shown_label
from streamsvm.service.predictions.columns import Output, OutputColumns, PredictedBatch
from streamsvm.storage.rows.csr import Array


class Writer(Protocol):
    """Writes predictions in one format."""

    def write_piece(self, file: IO[bytes], batches: Iterable[PredictedBatch]) -> None:
        """Write the batches of a unit to the file of its piece."""

    def join(self, pieces: Iterable[Path], file: IO[bytes]) -> None:
        """Join the pieces, which come in the order of rows, into the whole file."""


class LineWriter:
    """The base of writers of text, a line for each row."""

    def head(self) -> bytes:
        """Return the first line of the file, if it is that of no row."""
        return b""

    def lines(self, batch: PredictedBatch) -> bytes:
        """Return the lines of a batch."""
        raise NotImplementedError

    def write_piece(self, file: IO[bytes], batches: Iterable[PredictedBatch]) -> None:
        """Write the lines of a unit's batches."""
        file.writelines(map(self.lines, batches))

    def join(self, pieces: Iterable[Path], file: IO[bytes]) -> None:
        """Write the head, then the lines of the pieces, one piece after the other."""
        file.write(self.head())
        for path in pieces:
            with path.open("rb") as piece:
                shutil.copyfileobj(piece, file, 1 << 20)


class CsvWriter(LineWriter):
    """Writes CSV: a line of names, then a line for each row. A missing value is an empty field."""

    def __init__(self, columns: OutputColumns, line_end: str = "\n") -> None:
        self._columns, self._line_end = columns, line_end

    def head(self) -> bytes:
        """Return the line of names."""
        return self._written([[*self._columns.kept, *self._columns.output_names()]])

    def lines(self, batch: PredictedBatch) -> bytes:
        """Return the lines of a batch."""
        kept = [_texts(column) for column in batch.kept]
        named = zip(self._columns.output_names(), self._columns.flat(batch), strict=True)
        outputs = [_cells(name, column) for name, column in named]
        return self._written(zip(*kept, *outputs, strict=True))

    def _written(self, rows: Iterable[Iterable[Any]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator=self._line_end).writerows(rows)
        return text.getvalue().encode()


class NdjsonWriter(LineWriter):
    """Writes a JSON object a line for each row: first the copied columns, then fields as in the API's predictions."""

    def __init__(self, columns: OutputColumns) -> None:
        names = [*columns.kept, *columns.outputs]
        self._row = "{" + ",".join(json.dumps(name).replace("%", "%%") + ":%s" for name in names) + "}\n"

    def lines(self, batch: PredictedBatch) -> bytes:
        """Return the lines of a batch."""
        kept = [[json.dumps(value, default=str) for value in _plain(column)] for column in batch.kept]
        outputs = [_json(column) for column in batch.outputs]
        return "".join(self._row % row for row in zip(*kept, *outputs, strict=True)).encode()


def _parquet(columns: OutputColumns) -> Writer:
    from streamsvm.service.predictions.parquet_writer import ParquetWriter  # noqa: PLC0415 - pyarrow is slow to import

    return ParquetWriter(columns)


# format -> a function that makes its writer
WRITERS: dict[str, Callable[[OutputColumns], Writer]] = {"csv": CsvWriter, "ndjson": NdjsonWriter, "parquet": _parquet}


def _plain(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def _texts(column: Any) -> list[Any]:
    values = _plain(column)
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]


def _cells(name: str, column: Output) -> list[Any]:
    """Return the CSV fields of a column; contributions are a JSON object."""
    if isinstance(column, list):
        return list(map(json.dumps, column))
    return _labels(column) if name == "label" else column.tolist()


def _labels(column: Array) -> list[str]:
    """Write labels as text, whole numbers without a decimal point."""
    values = column.tolist()
    shown = {label: shown_label(label) for label in set(values)}
    return [shown[label] for label in values]


def _json(column: Output) -> Iterator[str]:
    """Write each value, or row of values, as JSON; an infinite number becomes null."""
    if isinstance(column, list):
        return map(json.dumps, column)
    if column.ndim == 2:
        return (f"[{','.join(map(_number, row))}]" for row in column.tolist())
    if column.dtype.kind == "f":
        return map(_number, column.tolist())
    return map(json.dumps, column.tolist())


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "null"
