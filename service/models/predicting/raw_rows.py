"""Makes a model's rows of strings, or of the columns of a table, that a program has in memory."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.matrices.matrix import fits, misfit
from streamsvm.reader.parsers.strings.fasta import FastaParser
from streamsvm.reader.parsers.strings.strings import is_of_strings
from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.tables.mixed import MixedFeatures
from streamsvm.reader.parsers.tables.to_predict import Match, label_place, match_columns
from streamsvm.reader.parsers.values import is_gap, word_of
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, Array, Rows


class TableRows(NamedTuple):
    """Rows of a table, the number of values in unknown categories by column, and how the columns were matched."""

    rows: Rows
    unknown: Mapping[str, int]
    match: Match | None


def is_of_columns(input: Mapping[str, Any] | None) -> bool:
    """Whether a model with this `input` takes the columns of a table by name.

    Columns of numbers in a table without names can only be taken by place.
    """
    return input is not None and "columns" in input and bool(input["has_names"] or input["categorical"])


def may_be_numbered(input: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether these names can be numbers of features; the model must have columns of numbers only."""
    names = set(names)
    return not input["categorical"] and all(map(str.isdecimal, names)) and not names & set(input["columns"])


def rows_of_strings(strings: Sequence[Any], input: dict[str, Any] | None) -> Rows:
    """Make rows, without labels, of strings of bases. Raises InputError; its `line` is the string's number from 1."""
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
    parser = FastaParser(InputOptions("fasta", like=input), Limits(), labelled=False)
    parts = list(parser.parse_chunks([line.encode() + b"\n" for line in lines]))
    ends = np.cumsum([0, *(np.diff(part.indptr).sum() for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends[:-1], strict=True))])
    indices, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values"))
    return Rows(np.zeros(len(strings), LABEL), indptr.astype(INDPTR), indices.astype(INDEX), values.astype(VALUE))


def rows_of_columns(
    columns: Mapping[str, Sequence[Any] | Array], names: Sequence[str], n_rows: int, input: dict[str, Any], base: int
) -> TableRows:
    """Make rows, without labels, of the columns (n_rows,) of a table by name.

    columns  those that the model may need; a missing value is None or nan
    names    of all columns of the table
    base     the model's index_base
    Raises InputError, also those of `match_columns`; its `line` is the row's number from 1.
    """
    match = match_names(input, names)
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
    _check(table)
    rows = Rows(np.zeros(n_rows, LABEL), *features.make(table, words, base))
    return TableRows(rows, features.unknown, match)


def match_names(input: dict[str, Any], names: Sequence[str]) -> Match:
    """Match columns by name; columns of a table without names, if some are categories, go by their numbers."""
    if len(set(names)) < len(names):
        raise InputError("duplicate_column", "a column name stands twice")
    if input["categorical"] and set(input["columns"]) <= set(names):
        input = {**input, "has_names": True}
    label = label_place(input, names)
    return match_columns(input, names, len(names), [] if label is None else [label])


def _numbers(column: Sequence[Any] | Array, name: str, must_be_there: bool) -> Array:
    """The column as (n,) float64, with nan for missing values."""
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


def _check(table: Array) -> None:
    """Raise InputError row_overflow or value_not_finite for a number in a table (n_rows, k) beyond float32."""
    bad = ~fits(np.where(np.isnan(table), 0.0, table))
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise InputError(*misfit(float(table[row, column])), line=row + 1)


def _words(column: Sequence[Any] | Array, name: str, features: MixedFeatures) -> Fields:
    texts = []
    for row, value in enumerate(column, 1):
        texts.append("" if is_gap(value) else word_of(value))
        fault = features.word_fault(texts[-1].encode(errors="surrogatepass"))
        if fault is not None:
            raise InputError(fault[0], f"{name[:40]}: {fault[1]}", line=row)
    return Fields.of(texts)
