"""Rows as a program holds them, strings or the columns of a table, as the rows that a model takes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reader.errors import InputError
from reader.limits import Limits
from reader.options import InputOptions
from reader.parsers.categories import Fields
from reader.parsers.fasta import FastaParser
from reader.parsers.matrix import fits, misfit
from reader.parsers.mixed import MixedFeatures
from reader.parsers.mixed_columns import MixedColumns
from reader.parsers.strings import is_of_strings
from storage.csr import INDEX, INDPTR, LABEL, VALUE, Array, Rows


def is_of_columns(input: Mapping[str, Any] | None) -> bool:
    """Whether a model with this `input` takes the columns of a table."""
    return input is not None and "columns" in input


def rows_of_strings(strings: Sequence[Any], input: dict[str, Any] | None) -> Rows:
    """Of strings of bases, without labels. InputError whose `line` is the number of the string from 1."""
    if not is_of_strings(input):
        raise InputError("input_mismatch", "the model takes no strings", hint="send what the model was trained on")
    lines = []
    for number, string in enumerate(strings, 1):
        if not isinstance(string, str):
            raise InputError("wrong_type", "this is not a string", line=number, hint="send a list of strings")
        if not string.isalnum():
            raise InputError("not_a_base" if string else "empty_sequence", "this is no string of bases", line=number)
        lines.append(string)
    if not lines:
        none = np.empty(0, INDEX), np.empty(0, VALUE)
        return Rows(np.zeros(0, LABEL), np.zeros(1, INDPTR), *none)
    parser = FastaParser(InputOptions("fasta", like=input), Limits(), labelled=False)
    parts = list(parser.parse_chunks([line.encode() + b"\n" for line in lines]))
    ends = np.cumsum([0, *(np.diff(part.indptr).sum() for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends[:-1], strict=True))])
    indices, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values"))
    return Rows(np.zeros(len(strings), LABEL), indptr.astype(INDPTR), indices.astype(INDEX), values.astype(VALUE))


def rows_of_columns(
    columns: Mapping[str, Sequence[Any]], n_rows: int, input: dict[str, Any], index_base: int
) -> tuple[Rows, int]:
    """Of columns (n_rows,) by name, without labels, and how many categories the model does not know.

    What is missing is None, nan or no column; columns that the model does not have are passed over. InputError whose
    `line` is the number of the row from 1.
    """
    names = input["columns"]
    is_word = [name in set(input["categorical"]) for name in names]
    found = MixedColumns(names, list(range(len(names))), is_word)
    options = InputOptions("csv", missing=input["missing"], categories=input["categories"], like=input)
    features = MixedFeatures(found, options, grows=False)
    given = [columns.get(name, [None] * n_rows) for name in names]
    numbers = [_numbers(given[k], names[k], input["missing"] == "error") for k in found.number_places.tolist()]
    words = [_words(given[k], names[k], features) for k in found.words]
    table = np.stack(numbers, axis=1) if numbers else np.empty((n_rows, 0))
    rows = Rows(np.zeros(n_rows, LABEL), *features.make(table, words, index_base))
    return rows, features.unknown


def _numbers(column: Sequence[Any], name: str, must_be_there: bool) -> Array:
    """(n,) float64, nan where they are missing."""
    for row, value in enumerate(column, 1):
        if _is_missing(value):
            if must_be_there:
                raise InputError("missing_value", f"{name[:40]} is missing", line=row)
        elif isinstance(value, str | bool) or not np.isscalar(value):
            raise InputError("wrong_type", f"{name[:40]} is not a number", line=row, hint="send numbers")
    values = np.array([math.nan if _is_missing(value) else float(value) for value in column])
    bad = np.flatnonzero(~fits(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)))
    if len(bad):
        raise InputError(*misfit(float(values[bad[0]])), line=int(bad[0]) + 1)
    return values


def _words(column: Sequence[Any], name: str, features: MixedFeatures) -> Fields:
    texts = []
    for row, value in enumerate(column, 1):
        texts.append("" if _is_missing(value) else str(value))
        fault = features.word_fault(texts[-1].encode(errors="surrogatepass"))
        if fault is not None:
            raise InputError(fault[0], f"{name[:40]}: {fault[1]}", line=row)
    return Fields.of(texts)


def _is_missing(value: Any) -> bool:
    """None, nan, or pandas' own."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("<NA>", "NaT")
