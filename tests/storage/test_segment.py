"""`view` returns the rows that were packed into a segment, without copying them, and read-only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.storage.rows.segment import HEADER, SegmentBuilder, packed_bytes, room, view
from tests.storage.rows import as_segment, make_rows, random_rows

COLUMNS = ("row_id", "class_code", "fold", "Qii", "indptr", "indices", "values")
OPTIONAL = ("target", "weight")
SIZE = 4096 - 16


def whole(segment):
    return np.arange(len(segment))


def build(segment, picked=None, size=SIZE) -> bytes:
    builder = SegmentBuilder(size)
    picked = whole(segment) if picked is None else picked
    assert builder.add(segment, picked) == len(picked)
    return builder.take()


@pytest.mark.parametrize("rows", [random_rows(30), make_rows([{}]), make_rows([{2**31 - 1: 1.5}, {}, {0: 2.0}])])
def test_round_trip_is_exact(rows):
    segment = as_segment(rows, first_row=1000)
    data = build(segment)
    assert len(data) == SIZE
    segments = view(data)
    assert len(segments) == len(rows)
    for name in COLUMNS:
        a, b = getattr(segments, name), getattr(segment, name)
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes()), name
    assert segments.row_bytes.tolist() == [packed_bytes(1, length) for length in np.diff(rows.indptr)]


def test_rows_with_weights_and_targets_take_a_column_more_for_each():
    rows = random_rows(30)
    weight = np.random.default_rng(0).random(30)
    segment = as_segment(rows, weight=weight)
    builder = SegmentBuilder(SIZE)
    for _ in range(2):  # one builder serves many segments, of other rows too
        assert builder.add(segment, whole(segment)) == len(segment)
        found = view(builder.take())
        for name in (*COLUMNS, *OPTIONAL):
            assert np.array_equal(getattr(found, name), getattr(segment, name).astype(getattr(found, name).dtype)), name
        assert found.row_bytes.tolist() == [packed_bytes(1, length) + 8 for length in np.diff(rows.indptr)]
        plain = as_segment(rows)
        builder.add(plain, whole(plain))
        assert not any(len(getattr(view(builder.take()), name)) for name in OPTIONAL)


def test_views_are_read_only_and_lie_in_the_buffer():
    data = build(as_segment(random_rows(30)))
    buffer = np.frombuffer(data, np.uint8)
    segments = view(memoryview(data))
    for name in COLUMNS:
        column = getattr(segments, name)
        assert np.shares_memory(column, buffer), name
        assert column.flags.aligned, name
        with pytest.raises(ValueError, match="read-only"):
            column[:] = 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 199), max_size=300), st.sampled_from([1008, 4080, 16368]))
def test_builder_keeps_the_order_and_never_overfills(seed, picked, size):
    source = as_segment(random_rows(200, seed=seed, longest=12))
    builder = SegmentBuilder(size)
    waiting, built = np.array(picked, np.int64), []
    while len(waiting):
        added = builder.add(source, waiting)
        if added < len(waiting):
            # The next row did not fit.
            assert not builder.is_empty
            data = builder.take()
            rows = view(data)
            next_row = packed_bytes(1, int(source.indptr[waiting[added] + 1] - source.indptr[waiting[added]]))
            assert rows.row_bytes.sum() + next_row > room(size)
            built.append(data)
        waiting = waiting[added:]
    if not builder.is_empty:
        built.append(builder.take())
    assert all(len(data) == size for data in built)
    segments = [view(data) for data in built]
    assert all(segment.row_bytes.sum() <= room(size) for segment in segments)
    assert [row for segment in segments for row in segment.row_id.tolist()] == picked
    for segment in segments:
        for k, row in enumerate(segment.row_id):
            a, b = source.indptr[row], source.indptr[row + 1]
            stored = slice(segment.indptr[k], segment.indptr[k + 1])
            assert segment.indices[stored].tobytes() == source.indices[a:b].tobytes()
            assert segment.values[stored].tobytes() == source.values[a:b].tobytes()
            assert (segment.Qii[k], segment.class_code[k]) == (source.Qii[row], source.class_code[row])


def test_builder_is_empty_after_take():
    source = as_segment(random_rows(50))
    builder = SegmentBuilder(SIZE)
    builder.add(source, whole(source))
    first = builder.take()
    assert builder.is_empty
    builder.add(source, whole(source))
    assert builder.take() == first


def test_a_row_that_fills_the_segment_fits_and_a_longer_one_does_not():
    most = next(length for length in range(1000, 0, -1) if packed_bytes(1, length) <= room(SIZE))
    rows = as_segment(make_rows([dict.fromkeys(range(most + 1), 2.0), dict.fromkeys(range(most), 2.0)]))
    builder = SegmentBuilder(SIZE)
    assert builder.add(rows, np.array([0])) == 0
    assert builder.add(rows, np.array([1])) == 1
    segments = view(builder.take())
    assert segments.indices.tolist() == list(range(most))


def test_segment_has_a_fixed_part():
    assert room(SIZE) == SIZE - HEADER.size - 4
