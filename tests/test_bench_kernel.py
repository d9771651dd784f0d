"""The segments of the kernel bench hold the problem."""

import numpy as np
import pytest

from streamsvm.storage.rows.cache_plan import LMDB_PAGE_HEADER, SMALLEST_SEGMENT
from streamsvm.storage.rows.segment import packed_bytes, room
from tests.bench.kernel import kernel_sweep_seconds, make_segments, smallest_segment
from tests.contracts.problems import random_problem


@pytest.mark.parametrize("size", [SMALLEST_SEGMENT, 1 << 20])
def test_segments_hold_every_row_once(size):
    X, y = random_problem(500, 200)
    X = X.sorted_indices()
    segments = make_segments(X, y, size)
    ids = np.concatenate([segment.row_id for segment in segments])
    assert sorted(ids) == list(range(500))
    assert len(segments) == 1 or not np.array_equal(ids, np.arange(500))
    for segment in segments[:3]:
        for position, row in enumerate(segment.row_id):
            entries = slice(segment.indptr[position], segment.indptr[position + 1])
            assert np.array_equal(segment.indices[entries], X[row].indices)
            assert np.array_equal(segment.values[entries], X[row].data)
            assert 1.0 - 2.0 * segment.class_code[position] == y[row]
            assert segment.Qii[position] == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("longest", [1, 500, 600, 5000])
def test_smallest_segment_holds_the_longest_row_and_its_half_does_not(longest):
    size = smallest_segment(longest)
    assert room(size - LMDB_PAGE_HEADER) >= packed_bytes(1, longest)
    assert size == SMALLEST_SEGMENT or room(size // 2 - LMDB_PAGE_HEADER) < packed_bytes(1, longest)


def test_sweeps_over_segments_are_timed():
    X, y = random_problem(300, 50)
    assert kernel_sweep_seconds(make_segments(X.sorted_indices(), y, SMALLEST_SEGMENT), X.shape, 3) > 0
