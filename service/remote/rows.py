"""Writes rows of a Python program (files, data frames, matrices, lists) as the body of a prediction request."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.parsers.values import is_gap, word_of
from streamsvm.service.errors import ServiceError

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
    if _is_stream(X):
        return RowsBody("application/vnd.apache.arrow.stream", lambda: _arrow(X), is_once=True)
    if (columns := _columns(X)) is not None:
        words = frozenset((input or {}).get("categorical", ()))
        return RowsBody("text/csv", lambda: _table(list(columns), columns, words), {"header": "yes"})
    if isinstance(X, list | tuple) and X and isinstance(X[0], str | Mapping):
        return _objects(X, input)
    return _matrix(X, input)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


def _is_stream(X: Any) -> bool:
    """Return whether X gives streams of Arrow, but is no frame whose columns can be read one by one."""
    is_column = hasattr(X, "dtype") or (hasattr(X, "type") and not hasattr(X, "columns"))
    is_frame = hasattr(X, "iloc") or hasattr(X, "num_rows") or hasattr(X, "get_columns")
    return hasattr(X, "__arrow_c_stream__") and not is_column and not is_frame


def _arrow(X: Any) -> Iterator[bytes]:
    import pyarrow  # noqa: PLC0415 - slow to import

    from streamsvm.reader.parsers.tables.arrow import written  # noqa: PLC0415

    return written(iter(pyarrow.RecordBatchReader.from_stream(X)))


def _columns(X: Any) -> dict[str, Sequence[Any]] | None:
    """Return the columns, by name, of a frame of pandas, polars or pyarrow without importing these; None: no frame."""
    for read in ("collect", "to_table", "read_all"):
        if hasattr(X, read) and (hasattr(X, "collect_schema") or hasattr(X, "schema")):
            X = getattr(X, read)()
    names = getattr(X, "column_names", None)
    if names is None and hasattr(X, "schema") and hasattr(X, "num_rows"):
        names = X.schema.names
    if names is None:
        names = getattr(X, "columns", None)
    if names is None or callable(names):
        return None
    if len(set(names)) < len(names):
        raise ServiceError("duplicate_column", "a column name stands twice")
    return {str(name): _values(X[name]) for name in names}


def _values(column: Any) -> Sequence[Any]:
    """Return the values of a column as Python objects."""
    for read in ("to_pylist", "to_list"):  # of pyarrow; of pandas and polars
        if hasattr(column, read):
            return getattr(column, read)()
    return list(column)


def _table(names: list[str], columns: Mapping[str, Sequence[Any]], words: frozenset[str]) -> Iterator[bytes]:
    cells = [map(_word if name in words else _cell, columns[name]) for name in names]
    return _csv([names], zip(*cells, strict=True))


def _csv(head: list[Iterable[Any]], rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    rest = iter(rows)
    part = head or list(islice(rest, _ROWS))
    while part:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(part)
        yield text.getvalue().encode()
        part = list(islice(rest, _ROWS))


def _word(value: Any) -> str:
    return "" if is_gap(value) else word_of(value)


def _cell(value: Any) -> str:
    """Write a value of a column of numbers; True and False become 1 and 0."""
    return str(int(value)) if isinstance(value, bool | np.bool_) else _word(value)


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
        return RowsBody("text/csv", lambda: _csv([], (map(_cell, row) for row in _lists(X))), {"header": "no"})
    return RowsBody("text/libsvm", lambda: _libsvm(X), {"index_base": "0"})


def _lists(X: Any) -> Iterator[list[Any]]:
    for first in range(0, X.shape[0], _ROWS):
        yield from X[first : first + _ROWS].tolist()


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
