"""Reads rows to predict from JSON.

{"rows": [{"3": 1.5, "17": 2}, ...]}                features by number, as in the training data
{"rows": [{"proto": "tcp", "count": 3}, ...]}       columns by name, for a model of a table
{"rows": [["tcp", 3], ...]}                         a value for each column, or each feature, in the order of training
{"documents": ["a text", ...]}                      for a model of documents
{"strings": ["ACGT", ...]}                          for a model of strings
"""

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.service.errors import ServiceError, refuse_other_fields
from streamsvm.service.models.predicting.raw_rows import (
    TableRows,
    is_of_columns,
    may_be_numbered,
    rows_of_columns,
    rows_of_strings,
)
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, Rows

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ROWS = 'Send {"rows": [{"3": 1.5}]}.'
_OBJECTS = '{"rows": [{"age": 31, "city": "Rome"}]}, or {"rows": [[31, "Rome"]]}'
_ALIKE = "Send all rows as arrays, or all as objects."
_FROM_ZERO = "Set index_base=0 if features are numbered from 0 here."
_INDEX_LIMIT = 2**31
_MOST_CELLS = 1 << 24  # rows times columns of a table in memory
_OVERFLOW = float(2**128 - 2**103)  # from here on a double rounds to an infinite float32


def json_tables(fields: dict[str, Any], input: dict[str, Any] | None, index_base: int) -> TableRows | None:
    """Read {"strings": [...]}, or the rows of a table, {"rows": [{"column": value}]}; None if features are numbered.

    A column that a row leaves out is missing there. Raises ServiceError; its `at` has the row's number from 1.
    """
    name = "strings" if "strings" in fields else "rows"
    items = fields.get(name)
    if name == "rows" and input is not None and "columns" in input and _are_arrays(items):
        columns = input["columns"]
        items = [dict(zip(columns, row, strict=True)) for row in _arrays(items, len(columns), "columns")]
        input = {**input, "has_names": True}
    if name == "rows" and not is_of_columns(input):
        return None
    refuse_other_fields(fields, {name}, f"Send {name} alone.")
    kind: type = str if name == "strings" else dict
    if not isinstance(items, list) or not all(isinstance(each, kind) for each in items):
        what, how = ("strings", '{"strings": ["ACGT"]}') if kind is str else ("objects, or of arrays", _OBJECTS)
        raise ServiceError("wrong_type", f"{name} is not a list of {what}", f"Send {how}.")
    if not items:
        raise ServiceError("no_rows", "there is no row")
    try:
        if name == "strings":
            return TableRows(rows_of_strings(items, input), {}, None)
        assert input is not None
        names = list(dict.fromkeys(name for row in items for name in row))
        if may_be_numbered(input, names):
            return None
        _check_cells(len(items), len(input["columns"]))
        columns = {column: [row.get(column) for row in items] for column in input["columns"]}
        return rows_of_columns(columns, names, len(items), input, index_base)
    except InputError as error:
        at = {} if error.line is None else {"row": error.line}
        raise ServiceError(error.code, error.message, error.hint, at) from None


def _check_cells(n_rows: int, n_columns: int) -> None:
    """Raise ServiceError body_too_large for too large a table: columns that rows leave out need memory there, too."""
    if n_rows * n_columns > _MOST_CELLS:
        message = f"{n_rows} rows of {n_columns} columns are more than {_MOST_CELLS} values"
        raise ServiceError("body_too_large", message, "Send fewer rows at a time, or CSV.")


def _are_arrays(items: Any) -> TypeGuard[list[Any]]:
    return isinstance(items, list) and bool(items) and isinstance(items[0], list)


def _arrays(items: list[Any], length: int, of_what: str) -> Iterator[list[Any]]:
    """Yield the rows. Raises ServiceError for one that is no array of this length."""
    for number, row in enumerate(items, 1):
        if not isinstance(row, list):
            raise ServiceError("wrong_type", "rows before this one are arrays, and it is none", _ALIKE, {"row": number})
        if len(row) != length:
            message = f"the row has {len(row)} values, and the model has {length} {of_what}"
            hint = f"Send a value for each of the model's {of_what}, in the order of training, or objects."
            raise ServiceError("column_count", message, hint, {"row": number})
        yield row


def json_rows(fields: dict[str, Any], index_base: int, n_features: int) -> Rows:
    """Read rows of numbered features, each an object, or an array of all `n_features`.

    Raises ServiceError; its `at` has the row's number from 1.
    """
    refuse_other_fields(fields, {"rows"}, _ROWS)
    items = fields.get("rows")
    if not isinstance(items, list):
        raise ServiceError("wrong_type", "rows is not a list", _ROWS)
    if not items:
        raise ServiceError("no_rows", "there is no row")
    if _are_arrays(items):
        rows_of_all = _arrays(items, n_features, "features")
        items = [{str(feature): value for feature, value in enumerate(row, index_base)} for row in rows_of_all]
    rows = [_row(row, index_base, {"row": number}) for number, row in enumerate(items, 1)]
    pairs = [pair for row in rows for pair in row]
    return Rows(
        label=np.zeros(len(rows), LABEL),
        indptr=np.cumsum([0, *map(len, rows)], dtype=INDPTR),
        indices=np.array([feature for feature, _ in pairs], INDEX),
        values=np.array([value for _, value in pairs], VALUE),
    )


def json_documents(fields: dict[str, Any]) -> list[str]:
    """Read the documents of a JSON object. Raises ServiceError."""
    refuse_other_fields(fields, {"documents"}, 'Send {"documents": ["a text"]}.')
    items = fields.get("documents")
    if not isinstance(items, list) or not all(isinstance(document, str) for document in items):
        raise ServiceError("wrong_type", "documents is not a list of texts", 'Send {"documents": ["a text"]}.')
    if not items:
        raise ServiceError("no_rows", "there is no document")
    return items


def _row(row: Any, index_base: int, at: dict[str, Any]) -> list[tuple[int, float]]:
    if not isinstance(row, dict):
        raise ServiceError("wrong_type", "a row is not an object of feature: value", _ROWS, at)
    pairs = sorted((_feature(name, index_base, at), _value(value, at)) for name, value in row.items())
    if len({feature for feature, _ in pairs}) < len(pairs):
        raise ServiceError("index_duplicate", "a feature is given twice in a row", at=at)
    return pairs


def _feature(name: str, index_base: int, at: dict[str, Any]) -> int:
    if not _NUMBER.fullmatch(name):
        raise ServiceError("bad_index", "a feature is not a whole number", at=at)
    if int(name) >= _INDEX_LIMIT:
        raise ServiceError("index_too_large", f"a feature is not below {_INDEX_LIMIT}", at=at)
    if int(name) < index_base:
        raise ServiceError("index_zero", "a feature is 0, the model's features start at 1", _FROM_ZERO, at)
    return int(name)


def _value(value: Any, at: dict[str, Any]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServiceError("wrong_type", "a value is not a number", _ROWS, at)
    if abs(value) >= _OVERFLOW:
        raise ServiceError("row_overflow", "a value is beyond float32", "Scale the feature down.", at)
    return float(value)
