"""Tells what columns of Arrow hold, and converts them: to numbers, to words as CSV would have them, to strings.

Needs pyarrow, the extra `parquet`.
"""

from typing import Any

import numpy as np
import pyarrow
from pyarrow import compute, types

from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.storage.rows.csr import Array

_BLANKS = " \t"  # that CSV leaves out around a field


def plain_type(kind: Any) -> Any:
    """The type of the values, also of those that stand in a dictionary."""
    return kind.value_type if types.is_dictionary(kind) else kind


def plain_values(column: Any) -> Any:
    """The column with its values in place of references to a dictionary."""
    if not types.is_dictionary(column.type):
        return column
    if types.is_string_view(column.type.value_type):  # which pyarrow has no cast for
        return column.dictionary.cast(pyarrow.large_string()).take(column.indices)
    return column.cast(column.type.value_type)


def is_number(kind: Any) -> bool:
    """Whether a column of this type has numbers; one without any value has."""
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(plain_type(kind)) for test in tests)


def is_string(kind: Any) -> bool:
    """Whether a column of this type has strings."""
    kind = plain_type(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_label_text(kind: Any) -> bool:
    """Whether a column of labels has texts: strings, or booleans, which are True and False as in CSV."""
    return is_string(kind) or types.is_boolean(plain_type(kind))


def is_words(kind: Any) -> bool:
    """Whether a column of this type has words, and no numbers: strings, dates or times."""
    return is_string(kind) or is_date(kind)


def is_date(kind: Any) -> bool:
    """Whether a column of this type has dates or times."""
    kind = plain_type(kind)
    return bool(types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind))


def strings_of(column: Any) -> Array:
    """(n,) of str, None for null; numbers as Python writes them."""
    return np.array([None if value is None else str(value) for value in column.to_pylist()], object)


def lengths(texts: Array) -> Array:
    """(n,) float64: the number of characters of each text, NaN for None and for an empty one."""
    return np.array([len(text) if text else np.nan for text in texts])


def numbers_of(column: Any) -> Array:
    """(n,) float64, NaN for null."""
    column = plain_values(column)
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def words_of(column: Any) -> Fields:
    """The words of a column, as CSV would have them; null becomes an empty word."""
    texts = compute.utf8_trim(_texts(plain_values(column)), _BLANKS).fill_null("")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return Fields(text, ends[:-1], ends[1:])


def _texts(column: Any) -> Any:
    """A column of large strings: numbers and booleans as Python writes them, a day without a time as a date."""
    kind = column.type
    if types.is_boolean(kind):
        return compute.if_else(column, "True", "False").cast(pyarrow.large_string())
    if types.is_floating(kind):
        return _floats(column)
    texts = column.cast(pyarrow.large_string())
    if types.is_timestamp(kind):
        whole = compute.replace_substring_regex(texts, r"(\.0+|(\.\d{6})000)$", r"\2")
        return compute.replace_substring_regex(whole, r" 00:00:00$", "")
    return texts


def _floats(column: Any) -> Any:
    """Texts of numbers; NaN is null."""
    encoded = column.dictionary_encode()
    texts = [None if value is None or value != value else repr(value) for value in encoded.dictionary.to_pylist()]
    dictionary = pyarrow.array(texts, pyarrow.large_string())
    return dictionary.take(encoded.indices)
