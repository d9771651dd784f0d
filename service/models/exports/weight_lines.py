"""Reads and writes lines of weights, one for each feature; with many features memory holds the non-zero ones only."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from streamsvm.service.models.exports.errors import WEIGHTS_A_PIECE, ModelFormatError, numbers
from streamsvm.service.models.exports.texts import floats
from streamsvm.storage.rows.csr import DENSE_WIDTH, Array

READ_BYTES = 1 << 20
LINE_BYTES = 1 << 10  # of a weight


def dense_lines(rows: Array) -> Iterator[bytes]:
    """Yield rows (n, n_values) as lines, in pieces under 1 MiB."""
    size = _rows_a_piece(rows)
    for begin in range(0, len(rows), size):
        yield _lines(rows[begin : begin + size])


def spread_lines(weights: Array, places: Array, n_rows: int) -> Iterator[bytes]:
    """Yield `n_rows` lines: weights (k, n_values) at ascending places (k,), zeros elsewhere."""
    size = _rows_a_piece(weights)
    zeros = b" ".join([b"0"] * weights.shape[1]) + b"\n"
    full_piece = zeros * size
    for begin in range(0, n_rows, size):
        end = min(begin + size, n_rows)
        here = slice(*np.searchsorted(places, (begin, end)))
        if here.start < here.stop:
            rows = np.zeros((end - begin, weights.shape[1]))
            rows[places[here] - begin] = weights[here]
            yield _lines(rows)
        else:
            yield full_piece if end - begin == size else zeros * (end - begin)


def _rows_a_piece(rows: Array) -> int:
    return max(1, WEIGHTS_A_PIECE // rows.shape[1])


def _lines(rows: Array) -> bytes:
    """Write a line for each row, with spaces between its numbers."""
    return numbers(rows)[1:-1].replace(b"],[", b"\n").replace(b",", b" ") + b"\n"


def read_rows(file: BinaryIO, n_bytes: int | None, n_rows: int, n_columns: int) -> tuple[Array | None, Array]:
    """Read lines of weights, float64, from the next `n_bytes` of the file (None: from the rest of it).

    Up to DENSE_WIDTH rows: returns None and all rows, (n_rows, n_columns). More: returns the ascending numbers (k,) of
    the rows that are not all 0, and these rows, (k, n_columns).
    """
    is_sparse = n_rows > DENSE_WIDTH
    places, parts = [np.empty(0, np.int64)], [np.empty(0)]
    begin = 0
    for part in _numbers(_chunks(file, n_bytes), n_rows * n_columns, LINE_BYTES * n_columns):
        if is_sparse:
            non_zero = np.flatnonzero(part)
            places.append(begin + non_zero)
            parts.append(part[non_zero])
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
    """Read `n_bytes` of the file in chunks; None: the rest of it."""
    remaining = n_bytes
    while chunk := file.read(READ_BYTES if remaining is None else min(READ_BYTES, remaining)):
        yield chunk
        remaining = None if remaining is None else remaining - len(chunk)


def _numbers(chunks: Iterator[bytes], count: int, line_bytes: int) -> Iterator[Array]:
    """Read `count` numbers in lines of at most `line_bytes`."""
    n_read, rest = 0, b""
    for chunk in chunks:
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        part = _values(lines)
        n_read += len(part)
        if n_read > count or len(rest) > line_bytes:
            raise ModelFormatError(f"the file has more than the {count} weights that its header says")
        yield part
    if n_read != count or rest.strip():
        raise ModelFormatError(f"the file ends inside its weights: {n_read} of {count} are whole")


def _values(lines: bytes) -> Array:
    """Read the numbers in lines; lines of zeros, which are most in a wide model, are not parsed."""
    words = lines.split()
    return np.array(floats(words), np.float64) if lines.strip(b"0 \n") else np.zeros(len(words))
