"""Repacking frees as many segments as needed and keeps the rows of lowest score."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.stream.residents import Candidates, appraise, choose_segments, usable_room

ROOM = 1000


def by_sorting(rows, room):
    """Do what `appraise` does by sorting: lowest scores first, while they fit; rows of one score may be split."""
    order = np.argsort(rows.score, kind="stable")
    used = np.cumsum(rows.bytes[order])
    return order[(used <= room) & (rows.score[order] < np.inf)]


@st.composite
def rows_of_segments(draw):
    """Rows of some segments, with scores of all kinds, many equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_segments = draw(st.integers(0, 300)), draw(st.integers(1, 25))
    score = rng.normal(size=n_rows) * 10.0 ** rng.integers(-30, 30, n_rows)
    score = np.where(rng.random(n_rows) < draw(st.sampled_from([0, 0.5])), np.round(score), score)
    score[rng.random(n_rows) < draw(st.sampled_from([0, 0.1, 0.9]))] = np.inf
    score[rng.random(n_rows) < draw(st.sampled_from([0, 0.1, 0.9]))] = -np.inf
    segment = np.sort(rng.integers(0, n_segments, n_rows)).astype(np.int32)
    sizes = rng.integers(17, draw(st.sampled_from([18, 60, 1000])), n_rows).astype(np.int32)
    # Adding 0 turns -0 into 0, since the order of the two does not matter.
    return Candidates(segment, score.astype(np.float32) + np.float32(0), sizes), n_segments


@settings(max_examples=300, deadline=None)
@given(rows_of_segments(), st.floats(0, 1.2))
def test_the_best_rows_are_chosen_as_if_sorted(case, share):
    rows, n_segments = case
    room = share * rows.bytes.sum()
    best, worth = appraise(rows, n_segments, room)
    assert rows.bytes[best].sum() <= room
    assert not np.any(rows.score[best] == np.inf)
    assert np.array_equal(worth, np.bincount(rows.segment[best], rows.bytes[best], n_segments))
    # No row that leaves has a lower score than one that stays, and no more rows leave than must.
    if best.any() and not best.all():
        assert rows.score[best].max() <= rows.score[~best].min()
    chosen = by_sorting(rows, room)
    assert rows.bytes[best].sum() >= rows.bytes[chosen].sum() - rows.bytes.max(initial=0)
    assert np.all(best[chosen] | (rows.score[chosen] == rows.score[best].max(initial=-np.inf)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, ROOM), min_size=2, max_size=60), st.data())
def test_enough_segments_and_no_more_are_retired(worth, data):
    worth = np.array(worth)
    to_free = data.draw(st.integers(1, len(worth) - 1))
    most = data.draw(st.integers(to_free, len(worth)))
    retired = choose_segments(worth, to_free, most, ROOM)
    assert to_free <= len(retired) <= most
    assert len(set(retired.tolist())) == len(retired)
    others = np.setdiff1d(np.arange(len(worth)), retired)
    assert worth[retired].max() <= worth[others].min(initial=np.inf)
    if len(retired) < most:
        assert worth[retired].sum() <= (len(retired) - to_free) * ROOM
    if len(retired) > to_free:
        assert worth[retired[:-1]].sum() > (len(retired) - 1 - to_free) * ROOM


def test_empty_segments_are_retired_first():
    assert sorted(choose_segments(np.array([900.0, 0.0, 800.0, 0.0]), 2, 4, ROOM).tolist()) == [1, 3]


def test_rows_are_gathered_when_no_segment_is_empty():
    # Half of each segment is worth keeping: two segments become one.
    assert len(choose_segments(np.full(4, 450.0), 1, 3, ROOM)) == 2


def test_room_lost_at_the_end_of_a_segment_is_about_a_row():
    assert usable_room(np.full(10, 90), ROOM) == ROOM - 90
    assert usable_room(np.array([20] * 10 + [900]), ROOM) == ROOM / 2
    assert usable_room(np.empty(0, np.int32), ROOM) == ROOM
