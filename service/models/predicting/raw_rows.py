"""Makes rows for a model from strings, from the columns of a table in memory, and from JSON:

{"rows": [{"3": 1.5, "17": 2}, ...]}                features by number, as in the training data
{"rows": [{"proto": "tcp", "count": 3}, ...]}       columns by name, for a model of a table
{"rows": [["tcp", 3], ...]}                         a value for each column, or each feature, in the order of training
{"documents": ["a text", ...]}                      for a model of documents
{"strings": ["ACGT", ...]}                          for a model of strings
"""

import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import STORED_TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers import parser_of
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.fasta import FastaParser, is_of_strings
from streamsvm.reader.parsers.streams import Scratch
from streamsvm.reader.parsers.tables.categories import TextFields
from streamsvm.reader.parsers.tables.matching import Beside, Match, ToPredict, match_names
from streamsvm.reader.parsers.tables.mixed import MixedFeatures
from streamsvm.reader.parsers.values import FLOAT32_OVERFLOW, fits, is_gap, misfit, word_of
from streamsvm.service.errors import ServiceError, refuse_other_fields
from streamsvm.storage.models.model_file import Label
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, Array, Rows

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ROWS = 'Send {"rows": [{"3": 1.5}]}.'
_OBJECTS = '{"rows": [{"age": 31, "city": "Rome"}]}, or {"rows": [[31, "Rome"]]}'
_ALIKE = "Send all rows as arrays, or all as objects."
_FROM_ZERO = "Set index_base=0 if features are numbered from 0 here."
_INDEX_LIMIT = 2**31
_MATRIX_ROWS = 1 << 12  # made sparse at a time
_MOST_CELLS = 1 << 24  # rows times columns of a table in memory


class TableRows(NamedTuple):
    """Rows of a table; `unknown`: column -> its values of unknown categories; `match`: how columns were matched."""

    rows: Rows
    unknown: Mapping[str, int]
    match: Match | None


def rows_of_strings(strings: Sequence[Any], input: dict[str, Any] | None) -> Rows:
    """Make rows, without labels, from strings of bases. Raises InputError; its `line` is the string's number from 1."""
    if not is_of_strings(input):
        raise InputError("input_mismatch", "the model takes no strings", hint="send rows like those of training")
    lines = []
    for number, string in enumerate(strings, 1):
        if not isinstance(string, str):
            raise InputError("wrong_type", "this is not a string", line=number, hint="send a list of strings")
        if not string.isalnum():
            raise InputError("not_a_base" if string else "empty_sequence", "this is no string of bases", line=number)
        lines.append(string)
    if not lines:
        return Rows(np.zeros(0, LABEL), np.zeros(1, INDPTR), np.empty(0, INDEX), np.empty(0, VALUE))
    parser = FastaParser(InputOptions("fasta", like=input), InputLimits(), labelled=False)
    parts = list(parser.parse_chunks([line.encode() + b"\n" for line in lines]))
    indices, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values"))
    indptr = np.arange(len(lines) + 1, dtype=INDPTR) * (len(indices) // len(lines))  # all have one length
    return Rows(np.zeros(len(lines), LABEL), indptr, indices, values)


def rows_of_matrix(X: Any, base: int) -> Iterator[Rows]:
    """Yield rows of X (n_rows, n_features), dense or of scipy.sparse, some at a time; column 0 has the number `base`.

    Rows have no labels, and values keep their type. Of no rows, yields one empty batch.
    """
    for begin in range(0, max(1, X.shape[0]), _MATRIX_ROWS):
        piece = sparse.csr_matrix(X[begin : begin + _MATRIX_ROWS])
        piece.sum_duplicates()
        yield Rows(np.zeros(piece.shape[0]), piece.indptr.astype(INDPTR), piece.indices + base, piece.data)


def rows_of_columns(
    columns: Mapping[str, Sequence[Any] | Array], names: Sequence[str], n_rows: int, input: dict[str, Any], base: int
) -> TableRows:
    """Make rows, without labels, from the columns of a table.

    columns  name -> n_rows values, for the columns that the model may need; a missing value is None or nan
    names    names of all columns of the table
    base     the model's index_base
    Raises InputError, also those of `match_columns`; its `line` is the row's number from 1.
    """
    match = match_given(input, names)
    matched = match.columns
    options = InputOptions("csv", missing=input["missing"], categories=input["categories"], like=input)
    by_place = replace(matched, places=list(range(len(matched.names))))
    features = MixedFeatures(by_place, options, grows=False)
    must_be_there = input["missing"] == "error"
    numbers = [
        _numbers(columns[matched.names[k]], matched.names[k], must_be_there) for k in by_place.number_places.tolist()
    ]
    words = [_words(columns[name], name, features) for name in matched.word_names]
    table = np.stack(numbers, axis=1) if numbers else np.empty((n_rows, 0))
    bad = ~fits(np.where(np.isnan(table), 0.0, table))
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise InputError(*misfit(float(table[row, column])), line=row + 1)
    rows = Rows(np.zeros(n_rows, LABEL), *features.make(table, words, base))
    return TableRows(rows, features.unknown, match)


def match_given(input: dict[str, Any], names: Sequence[str]) -> Match:
    """Match columns to the model's by name; a model of a table without names has column numbers as names."""
    if len(set(names)) < len(names):
        raise InputError("duplicate_column", "a column name stands twice")
    if input["categorical"] and set(input["columns"]) <= set(names):
        input = {**input, "has_names": True}
    return match_names(input, names, len(names))


def _numbers(column: Sequence[Any] | Array, name: str, must_be_there: bool) -> Array:
    """Convert a column to (n,) float64, with nan for missing values. Raises InputError missing_value, wrong_type."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        values = column.astype(np.float64)
    else:
        values = np.array([_number(value, name, row) for row, value in enumerate(column, 1)], np.float64)
    if must_be_there and np.isnan(values).any():
        raise InputError("missing_value", f"{name[:40]} is missing", line=int(np.argmax(np.isnan(values))) + 1)
    return values


def _number(value: Any, name: str, row: int) -> float:
    if type(value) is float:
        return value
    if is_gap(value):
        return math.nan
    if isinstance(value, str) or not np.isscalar(value):
        raise InputError("wrong_type", f"{name[:40]} is not a number", line=row, hint="send numbers")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def _words(column: Sequence[Any] | Array, name: str, features: MixedFeatures) -> TextFields:
    texts = []
    for row, value in enumerate(column, 1):
        texts.append("" if is_gap(value) else word_of(value))
        fault = features.word_fault(texts[-1].encode(errors="surrogatepass"))
        if fault is not None:
            raise InputError(fault[0], f"{name[:40]}: {fault[1]}", line=row)
    return TextFields.of(texts)


def json_tables(fields: dict[str, Any], input: dict[str, Any] | None, index_base: int) -> TableRows | None:
    """Read {"strings": [...]}, or rows of a table, {"rows": [{"column": value}]}; return None for numbered features.

    A column that a row leaves out is missing there. Raises ServiceError; its `at` has the row's number from 1.
    """
    name = "strings" if "strings" in fields else "rows"
    items = fields.get(name)
    if name == "rows" and input is not None and "columns" in input and _are_arrays(items):
        columns = input["columns"]
        items = [dict(zip(columns, row, strict=True)) for row in _arrays(items, len(columns), "columns")]
        input = {**input, "has_names": True}
    # Columns of numbers in a table without names can only be taken by place.
    has_columns = input is not None and "columns" in input and bool(input["has_names"] or input["categorical"])
    if name == "rows" and not has_columns:
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
        if not input["categorical"] and all(map(str.isdecimal, names)) and not {*names}.intersection(input["columns"]):
            return None
        # Columns that rows leave out need memory there, too.
        if (n_rows := len(items)) * (n_columns := len(input["columns"])) > _MOST_CELLS:
            message = f"{n_rows} rows of {n_columns} columns are more than {_MOST_CELLS} values"
            raise ServiceError("body_too_large", message, "Send fewer rows at a time, or CSV.")
        columns = {column: [row.get(column) for row in items] for column in input["columns"]}
        return rows_of_columns(columns, names, len(items), input, index_base)
    except InputError as error:
        at = {} if error.line is None else {"row": error.line}
        raise ServiceError(error.code, error.message, error.hint, at) from None


def _are_arrays(items: Any) -> TypeGuard[list[Any]]:
    return isinstance(items, list) and bool(items) and isinstance(items[0], list)


def _arrays(items: list[Any], length: int, of_what: str) -> Iterator[list[Any]]:
    """Yield the items. Raises ServiceError for an item that is no array of `length` values, features or columns."""
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
    """Read the documents of a JSON object. Raises ServiceError unknown_field, wrong_type, no_rows."""
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
    if abs(value) >= FLOAT32_OVERFLOW:
        raise ServiceError("row_overflow", "a value is beyond float32", "Scale the feature down.", at)
    return float(value)


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
