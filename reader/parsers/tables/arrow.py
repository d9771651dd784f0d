"""Columns of Arrow: what they hold, as numbers and as words; and batches written as a stream."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow
from pyarrow import compute, ipc, types

from streamsvm.reader.parsers.tables.categories import Fields
from streamsvm.reader.parsers.values import BLANKS, is_gap, word_of
from streamsvm.storage.rows.csr import Array


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


def numbers_of(column: Any) -> Array:
    """(n,) float64, NaN for null."""
    column = plain_values(column)
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def words_of(column: Any) -> Fields:
    """The words of a column; null becomes an empty word."""
    values, rows = _distinct(column)
    return _fields(_texts(values).fill_null(""), rows)


def documents_of(column: Any) -> tuple[Fields, Array]:
    """The texts of a column of strings, and (n,) bool: which are null."""
    values, rows = _distinct(column)
    is_null = np.append(np.asarray(values.is_null()), True)[rows]
    return _fields(values.cast(pyarrow.large_string()).fill_null(""), rows), is_null


def texts_of(column: Any) -> list[bytes | None]:
    """The values in UTF-8, each distinct one once, None for null; numbers as Python writes them."""
    values, rows = _distinct(column)
    texts = [None if value is None else str(value).encode() for value in values.to_pylist()]
    return np.array([*texts, None], object)[rows].tolist()


def _distinct(column: Any) -> tuple[Any, Any]:
    """Values, and for each row the place of its value, -1 for null. A dictionary is not written out."""
    if not types.is_dictionary(column.type):
        return column, slice(0, len(column))
    values, places = column.dictionary, np.asarray(column.indices.cast(pyarrow.int64()).fill_null(-1))
    if types.is_string_view(values.type):
        values = values.cast(pyarrow.large_string())
    if len(values) > len(places):
        used = np.unique(places[places >= 0])
        values, places = values.take(pyarrow.array(used)), np.where(places < 0, -1, np.searchsorted(used, places))
    return values, places


def _fields(texts: Any, rows: Any) -> Fields:
    """The fields of rows, of which each has one of the texts, a column of large strings; the last is empty."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    text = np.zeros(1, np.uint8)
    if data is not None and len(ends) and ends[-1] > ends[0]:  # the text of a slice is a part of the whole one's
        text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[:1]
    return Fields(text, np.append(ends[:-1], 0)[rows], np.append(ends[1:], 0)[rows])


def _texts(column: Any) -> Any:
    """A column of large strings: the words of the values, as `values` writes them; NaN is null."""
    kind = column.type
    if types.is_boolean(kind):
        return compute.if_else(column, "True", "False").cast(pyarrow.large_string())
    if not (types.is_floating(kind) or is_date(kind)):
        return compute.utf8_trim(column.cast(pyarrow.large_string()), BLANKS)
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    values = values.cast(pyarrow.string()) if is_date(kind) else values.to_numpy(zero_copy_only=False)
    words = [None if is_gap(value) else word_of(value) for value in (values.to_pylist() if is_date(kind) else values)]
    return pyarrow.array(words, pyarrow.large_string()).take(encoded.indices)


def written(batches: Iterator[Any]) -> Iterator[bytes]:
    """Write batches as a stream of Arrow, a batch at a time."""
    sink, writer = _Sink(), None
    for batch in batches:
        if writer is None:
            writer = ipc.new_stream(pyarrow.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
        yield sink.taken()


class _Sink:
    """The part of a file's interface that Arrow writes by; what was written is taken away."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
