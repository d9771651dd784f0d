"""Reads data frames as batches of Arrow, and writes rows of a Python program as bodies of prediction requests."""

import io
import json
import numbers
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from streamsvm.reader.parsers.tables.arrow import is_number, is_words, plain_values, word_column, written
from streamsvm.reader.parsers.values import is_gap, word_of
from streamsvm.service.errors import ServiceError
from streamsvm.service.remote.frames import (
    column_names,
    is_dataset,
    is_frame,
    is_lazy,
    is_pandas,
    is_reader,
    is_streamed,
)

_MOST_ROWS = 1 << 16
# Rows that a pyarrow dataset reads at a time, since it also reads ahead.
_ROWS_OF_DATASET = 1 << 13


class Batches(NamedTuple):
    """A table as batches of Arrow.

    schema   names and types of the columns
    batches  the rows, which can be read once
    size     bytes of all rows, None if unknown
    """

    schema: Any
    batches: Iterator[Any]
    size: int | None


def opened(X: Any) -> Batches:
    """Open a frame or a table. If some names of a frame's columns are no strings, the columns are called 1, 2, ..."""
    if is_reader(X):
        return Batches(X.schema, _cut(X), None)
    if is_dataset(X) and not hasattr(X, "num_rows"):
        read = {"batch_size": _ROWS_OF_DATASET, "batch_readahead": 1, "fragment_readahead": 1}
        return Batches(X.schema, iter(X.to_batches(**read)), None)
    if is_lazy(X):
        return _collected(X)
    if is_streamed(X):
        reader = pa.RecordBatchReader.from_stream(X)
        return Batches(reader.schema, _cut(reader), None)
    table = _table(X)
    return Batches(table.schema, iter(table.to_batches(max_chunksize=_MOST_ROWS)), table.nbytes)


def _collected(X: Any) -> Batches:
    """Read a LazyFrame of polars, in batches if this version of polars can, else as a whole."""
    if not hasattr(X, "collect_batches"):
        return opened(X.collect())
    frames = (frame.to_arrow() for frame in X.collect_batches(maintain_order=True))
    first = next(frames, None)
    if first is None:
        return opened(X.collect())

    def batches() -> Iterator[Any]:
        yield from first.to_batches(max_chunksize=_MOST_ROWS)
        for table in frames:
            yield from table.cast(first.schema).to_batches(max_chunksize=_MOST_ROWS)

    return Batches(first.schema, batches(), None)


def _cut(reader: Any) -> Iterator[Any]:
    """Yield the batches of a reader, cut to at most _MOST_ROWS rows each."""
    for batch in reader:
        for begin in range(0, batch.num_rows, _MOST_ROWS):
            yield batch.slice(begin, _MOST_ROWS)


def _table(X: Any) -> Any:
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if is_pandas(X):
        names = list(X.columns)
        named = all(isinstance(name, str) for name in names)
        columns = [_column(X.iloc[:, place]) for place in range(len(names))]
        return pa.Table.from_arrays(columns, names if named else [str(place + 1) for place in range(len(names))])
    return X.to_arrow() if hasattr(X, "to_arrow") else pa.table(X)


def _column(series: Any) -> Any:
    """Convert a pandas column to Arrow; values of mixed types become texts as in CSV, or floats if all are numbers."""
    try:
        column = pa.array(series, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    if hasattr(series, "sparse"):
        return _column(series.sparse.to_dense())
    values = [None if gap else value for value, gap in zip(series.tolist(), series.isna().tolist(), strict=True)]
    if all(value is None or isinstance(value, numbers.Real | np.bool_) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.large_string())


def stream_of(frame: Any) -> Iterator[bytes]:
    """Return the bytes of a stream of Arrow with the rows of a frame."""
    return written(opened(frame).batches)


_CHUNK_BYTES = 1 << 20
_ROWS = 1 << 12  # rows of a frame or a matrix that are written at a time
_BY_CONTENT = "application/octet-stream"


class RowsBody(NamedTuple):
    """The body of a request.

    kind      Content-Type
    chunks    function that returns the bytes, from their beginning at each call
    query     parameters of the request that say how to read the bytes
    is_once   the bytes can be read only once
    """

    kind: str
    chunks: Callable[[], Iterable[bytes]]
    query: Mapping[str, str] = {}
    is_once: bool = False


def predicted(answer: Mapping[str, Any]) -> np.ndarray:
    """Return the labels, or the numbers, of an answer with predictions, (n_rows,)."""
    return np.array([each["label"] if "label" in each else each["value"] for each in answer["predictions"]])


def body_of(X: Any, input: Mapping[str, Any] | None) -> RowsBody:
    """Return the body for rows X and a model with this `input`, which is that of GET /v1/models/{id}.

    X is the path of a file, or an open file; a data frame, or an object that gives streams of Arrow; a matrix (n_rows,
    n_features) with the columns of training in their order; a list of objects, documents or strings. Raises
    ServiceError wrong_type.
    """
    if isinstance(X, str | PathLike):
        return RowsBody(_BY_CONTENT, partial(_chunks, Path(fspath(X))))
    if hasattr(X, "read"):
        return RowsBody(_BY_CONTENT, lambda: iter(lambda: X.read(_CHUNK_BYTES), b""), is_once=True)
    if is_frame(X):
        words, header = (input or {}).get("categorical", ()), "no" if column_names(X) is None else "yes"
        return RowsBody("text/csv", lambda: _csv(opened(X), words, header), {"header": header}, is_once=is_streamed(X))
    if isinstance(X, list | tuple) and X and isinstance(X[0], str | Mapping):
        return _objects(X, input)
    return _matrix(X, input)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


def _csv(table: Batches, words: Collection[str], header: str) -> Iterator[bytes]:
    """Yield a table as CSV. A service starts a process for Arrow, not for short CSV: one row takes a tenth of the time.

    Raises ServiceError wrong_type for a column that has neither numbers nor words.
    """
    settings = csv.WriteOptions(include_header=header == "yes")
    for batch in table.batches:
        names = batch.schema.names
        columns = [_shown(name, column, name in words) for name, column in zip(names, batch.columns, strict=True)]
        if len(columns) == 1:  # a missing value has to be quotes, for a blank line is no row
            columns = [columns[0].cast(pa.large_string()).fill_null("")]
        text = io.BytesIO()
        csv.write_csv(pa.record_batch(columns, names), text, settings)
        yield text.getvalue()
        settings = csv.WriteOptions(include_header=False)


def _shown(name: str, column: Any, is_word: bool) -> Any:
    if not (is_number(column.type) or is_words(column.type)):
        raise ServiceError("wrong_type", f"column {name} is of type {str(column.type)[:40]}")
    column = plain_values(column)
    return column if is_number(column.type) and not is_word else word_column(column)


def _objects(X: Sequence[Any], input: Mapping[str, Any] | None) -> RowsBody:
    is_text = (input or {}).get("format") == "text" or "text_column" in (input or {})
    name = "rows" if isinstance(X[0], Mapping) else "documents" if is_text else "strings"
    data = json.dumps({name: list(X)}).encode()
    return RowsBody("application/json", lambda: [data])


def _matrix(X: Any, input: Mapping[str, Any] | None) -> RowsBody:
    is_table = input is not None and "columns" in input
    if hasattr(X, "tocsr"):
        X = X.toarray() if is_table else X.tocsr()
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ServiceError("wrong_type", f"X has the shape {X.shape}, not (n_rows, n_features)")
    if is_table:
        table = pa.table({str(place): _plain(X[:, place]) for place in range(X.shape[1])})
        return RowsBody("text/csv", lambda: _csv(opened(table), (), "no"), {"header": "no"})
    return RowsBody("text/libsvm", lambda: _libsvm(X), {"index_base": "0"})


def _plain(column: np.ndarray) -> Any:
    """Convert a column of a matrix to Arrow; in one of objects True and False are 1 and 0."""
    if column.dtype.kind in "biuf":
        return pa.array(column)
    values = (int(value) if isinstance(value, bool) else value for value in column.tolist())
    return pa.array([None if is_gap(value) else word_of(value) for value in values], pa.large_string())


def _libsvm(X: Any) -> Iterator[bytes]:
    """Yield the rows as LIBSVM text, with features numbered from 0."""
    for first in range(0, X.shape[0], _ROWS):
        lines = map(_line, X[first : first + _ROWS])
        yield "".join(lines).encode()


def _line(row: Any) -> str:
    """Write a row, (n_features,) or sparse (1, n_features), as a line of LIBSVM text."""
    places = row.indices if hasattr(row, "tocsr") else np.flatnonzero(row)
    values = row.data if hasattr(row, "tocsr") else row[places]
    pairs = zip(places.tolist(), values.tolist(), strict=True)
    return f"0 {' '.join(f'{place}:{value!r}' for place, value in sorted(pairs))}\n"
