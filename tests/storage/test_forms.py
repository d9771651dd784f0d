"""Rows in their shortest form, dense or with indices, are the same rows wherever segments are packed and copied."""

from collections import deque

import numpy as np
import pytest

from streamsvm.storage.rows.scattered import ScatteredRows, places_of
from streamsvm.storage.rows.segment import PER_VALUE, SegmentBuilder, bytes_of, used_bytes, view
from streamsvm.trainer.rows.mixture import Mixture, mixed
from tests.storage.rows import as_segment, make_rows, random_rows

SIZE = 1 << 14


def rows_of(density, width, n_rows=40):
    rng = np.random.default_rng(width)
    lists = [
        {place: float(rng.standard_normal()) for place in range(width) if rng.random() < density} for _ in range(n_rows)
    ]
    return make_rows(lists)


# Rows, and whether they take fewer bytes without indices.
SHAPES = {
    "a table": (rows_of(1.0, 28), True),
    "a table with gaps": (rows_of(0.8, 28), True),
    "fewer than half of the values": (rows_of(0.3, 28), False),
    "one column": (rows_of(1.0, 1), True),
    "one row": (rows_of(1.0, 9, 1), True),
    "text": (random_rows(40, largest=100_000), False),
    "rows without values": (make_rows([{}, {}]), False),
    "one row without values among others": (make_rows([{0: 1.0, 1: 2.0, 2: 1.0}, {}, {0: 3.0, 1: 1.0}]), True),
}


def matrix_of(segment, width=100_000):
    segment, found = segment.with_indices, {}
    for i, row_id in enumerate(segment.row_id.tolist()):
        stored = slice(segment.indptr[i], segment.indptr[i + 1])
        values = zip(segment.indices[stored].tolist(), segment.values[stored].tolist(), strict=True)
        found[row_id] = {feature: value for feature, value in values if value}
    return found


@pytest.fixture(params=SHAPES)
def shape(request):
    rows, is_dense = SHAPES[request.param]
    return as_segment(rows), is_dense


def test_the_shortest_form_is_the_same_rows(shape):
    rows, is_dense = shape
    short = rows.in_shortest_form
    assert (short.is_dense, matrix_of(short)) == (is_dense, matrix_of(rows))
    assert short.packed_bytes <= rows.packed_bytes and short.width == rows.width
    if is_dense:
        assert short.row_bytes.sum() == short.packed_bytes == len(rows) * rows.per_row + 4 * len(rows) * rows.width


def test_segments_come_back(shape):
    rows = shape[0].in_shortest_form
    builder = SegmentBuilder(SIZE)
    assert builder.add(rows, np.arange(len(rows))) == len(rows)
    data = builder.take()
    back = view(data)
    assert (back.is_dense, matrix_of(back)) == (rows.is_dense, matrix_of(rows))
    assert used_bytes(data) == bytes_of(len(rows), len(rows.values), rows.per_row, rows.per_value)
    assert len(back.indices) * PER_VALUE in (0, len(back.values) * PER_VALUE)


@pytest.mark.parametrize(
    "order", [("a table", "text"), ("text", "a table"), ("a table", "one column", "text", "a table")]
)
def test_dense_rows_and_others_can_be_mixed(order):
    parts = [as_segment(SHAPES[name][0], 1000 * k).in_shortest_form for k, name in enumerate(order)]
    expected = {row: values for part in parts for row, values in matrix_of(part).items()}
    (_, rows), *none = mixed(list(range(len(parts))), lambda k: (parts[k], None), deque([Mixture(9, 1 << 20)]))
    assert not none and matrix_of(rows) == expected
    scattered = ScatteredRows(parts)
    places = np.concatenate([places_of(k, np.arange(len(part))) for k, part in enumerate(parts)])
    places = np.random.default_rng(0).permutation(places)
    found = {}
    for batch in scattered.batches(places):
        found |= matrix_of(batch)
    assert found == expected
    builder, found = SegmentBuilder(SIZE), {}
    for part in parts:  # a segment ends where rows with indices follow dense ones
        left = np.arange(len(part))
        while len(left := left[builder.add(part, left) :]):
            found |= matrix_of(view(builder.take()))
    assert found | matrix_of(view(builder.take())) == expected
