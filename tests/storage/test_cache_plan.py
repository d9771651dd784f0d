"""plan_cache keeps its promises for every size of cache."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamsvm.storage.errors import CacheTooSmall
from streamsvm.storage.rows.cache_plan import FEWEST_LIVE, LARGEST_SEGMENT, LMDB_PAGE_HEADER, PAGE, plan_cache
from streamsvm.storage.rows.segment import packed_bytes, room, row_bytes

sizes = st.one_of(st.integers(100_000, 1_000_000_000), st.integers(100_000, 3_000_000))
lengths = st.one_of(st.integers(1, 100_000), st.integers(1, 600))


def check(plan, longest_row):
    size = plan.segment_bytes + LMDB_PAGE_HEADER
    assert size & (size - 1) == 0
    assert size >= PAGE
    assert room(plan.segment_bytes) >= packed_bytes(1, longest_row)
    # A segment is no larger than the longest row needs, or than a fair share of the cache.
    assert size <= LARGEST_SEGMENT or room(size // 2 - LMDB_PAGE_HEADER) < packed_bytes(1, longest_row)
    assert 1 <= plan.fresh_per_step < plan.most_retired
    # The live segments include those that a step adds and retires, with some to choose from.
    assert plan.most_live >= FEWEST_LIVE > plan.fresh_per_step or plan.most_live > 2 * plan.most_retired
    # The writes of two steps fit beside the live segments.
    assert (plan.most_live + 2 * plan.most_retired) * size <= plan.cache_bytes
    assert plan.row_bytes == plan.most_live * room(plan.segment_bytes)


@settings(max_examples=400, deadline=None)
@given(sizes, lengths)
@example(100_000, 1)
@example(1_000_000_000, 100_000)
def test_plan_or_a_minimum_that_works(cache_bytes, longest_row):
    try:
        plan = plan_cache(cache_bytes, longest_row)
    except CacheTooSmall as error:
        needed = int(re.search(r"need (\d+) bytes", error.message).group(1))
        assert needed > cache_bytes
        assert str(needed) in error.hint
        plan = plan_cache(needed, longest_row)
    check(plan, longest_row)


@pytest.mark.parametrize("longest_row", [1, 100, 508, 509, 5000, 100_000])
def test_every_size_from_the_minimum_on_works(longest_row):
    with pytest.raises(CacheTooSmall) as caught:
        plan_cache(1000, longest_row)
    needed = int(re.search(r"need (\d+) bytes", caught.value.message).group(1))
    for cache_bytes in range(needed, 12 * needed, max(1, needed // 50)):
        check(plan_cache(cache_bytes, longest_row), longest_row)


def test_most_of_a_large_cache_is_for_rows():
    for cache_bytes in (16 << 20, 64 << 20, 256 << 20, 1 << 30):
        assert plan_cache(cache_bytes, 1000).row_bytes > 0.75 * cache_bytes


@pytest.mark.parametrize("longest_row", [1, 50, 300, 400])
@pytest.mark.parametrize("seed", range(3))
def test_sure_bytes_fit_whatever_the_lengths(longest_row, seed):
    """Segments are filled in order; the first row that does not fit closes a segment."""
    plan = plan_cache(1 << 20, 400)
    sure, rng = plan.sure_bytes(longest_row), np.random.default_rng(seed)
    # Rows of any length; alternating short and longest rows is the worst order.
    lengths = rng.integers(0, longest_row + 1, 100_000) if seed else np.tile([1, longest_row], 50_000)
    sizes = row_bytes(lengths)
    sizes = sizes[np.cumsum(sizes) <= sure]
    segments, remaining = 0, 0
    for size in sizes.tolist():
        if size > remaining:
            segments, remaining = segments + 1, room(plan.segment_bytes)
        remaining -= size
    assert segments <= plan.most_live
    assert sizes.sum() > 0.4 * plan.row_bytes
