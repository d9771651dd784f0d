"""A line of weights for each feature: many of them in memory only where they are not 0."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from streamsvm.service.models.exports.errors import WEIGHTS_A_PIECE, ModelFormatError, numbers
from streamsvm.service.models.exports.texts import floats
from streamsvm.storage.rows.csr import DENSE_WIDTH, Array

READ_BYTES = 1 << 20
LINE_BYTES = 1 << 10  # of a weight


def dense_lines(rows: Array) -> Iterator[bytes]:
    """Write rows (n, n_values) as lines, in pieces under 1 MiB."""
    size = _rows_a_piece(rows)
    for begin in range(0, len(rows), size):
        yield _lines(rows[begin : begin + size])


def spread_lines(weights: Array, places: Array, n_rows: int) -> Iterator[bytes]:
    """Write `n_rows` lines, which are 0 but for weights (k, n_values) at places (k,), ascending."""
    size = _rows_a_piece(weights)
    nothing = b" ".join([b"0"] * weights.shape[1]) + b"\n"
    many = nothing * size
    for begin in range(0, n_rows, size):
        end = min(begin + size, n_rows)
        own = slice(*np.searchsorted(places, (begin, end)))
        if own.start < own.stop:
            rows = np.zeros((end - begin, weights.shape[1]))
            rows[places[own] - begin] = weights[own]
            yield _lines(rows)
        else:
            yield many if end - begin == size else nothing * (end - begin)


def _rows_a_piece(rows: Array) -> int:
    return max(1, WEIGHTS_A_PIECE // rows.shape[1])


def _lines(rows: Array) -> bytes:
    """A line for each row, spaces between its numbers."""
    return numbers(rows)[1:-1].replace(b"],[", b"\n").replace(b",", b" ") + b"\n"


def read_rows(file: BinaryIO, n_bytes: int | None, n_rows: int, n_columns: int) -> tuple[Array | None, Array]:
    """The lines in so many bytes, None: all that are left, of the file, float64: all, (n_rows, n_columns), and None.

    Of many the numbers (k,) of those that are not all 0, ascending, and these (k, n_columns).
    """
    is_sparse = n_rows > DENSE_WIDTH
    places, parts = [np.empty(0, np.int64)], [np.empty(0)]
    begin = 0
    for part in _numbers(_chunks(file, n_bytes), n_rows * n_columns, LINE_BYTES * n_columns):
        if is_sparse:
            there = np.flatnonzero(part)
            places.append(begin + there)
            parts.append(part[there])
        else:
            parts.append(part)
        begin += len(part)
    if not is_sparse:
        return None, np.concatenate(parts).reshape(n_rows, n_columns)
    place = np.concatenate(places)
    features, row = np.unique(place // n_columns, return_inverse=True)
    rows = np.zeros((len(features), n_columns))
    rows[row, place % n_columns] = np.concatenate(parts)
    return features, rows


def _chunks(file: BinaryIO, n_bytes: int | None) -> Iterator[bytes]:
    """Read so many bytes of the file; None: all that are left."""
    left = n_bytes
    while chunk := file.read(READ_BYTES if left is None else min(READ_BYTES, left)):
        yield chunk
        left = None if left is None else left - len(chunk)


def _numbers(chunks: Iterator[bytes], count: int, line_bytes: int) -> Iterator[Array]:
    """Read `count` numbers in lines of at most `line_bytes`."""
    found, rest = 0, b""
    for chunk in chunks:
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        part = _values(lines)
        found += len(part)
        if found > count or len(rest) > line_bytes:
            raise ModelFormatError(f"more than the {count} weights of the header")
        yield part
    if found != count or rest.strip():
        raise ModelFormatError(f"the file ends inside its weights: {found} of {count} are whole")


def _values(lines: bytes) -> Array:
    """Most of many are 0, which is quickly seen."""
    words = lines.split()
    return np.array(floats(words), np.float64) if lines.strip(b"0 \n") else np.zeros(len(words))
