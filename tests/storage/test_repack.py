"""Repacking frees what was asked and keeps the rows that are worth most."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.repack import Candidates, plan_repack

ROOM = 1000


@st.composite
def cases(draw):
    """(candidates, n_segments, to_free, most_retired), every segment at most full."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_segments = draw(st.integers(2, 25))
    longest = draw(st.sampled_from([20, 200, 1000]))
    segments, sizes = [], []
    for segment in range(n_segments):
        left = ROOM if rng.random() < 0.7 else int(rng.integers(20, ROOM + 1))
        while left >= 17:
            size = int(min(left, rng.integers(17, max(18, longest))))
            segments.append(segment)
            sizes.append(size)
            left -= size
    score = rng.normal(size=len(sizes))
    score[rng.random(len(sizes)) < draw(st.sampled_from([0, 0.1, 0.9]))] = np.inf
    score[rng.random(len(sizes)) < draw(st.sampled_from([0, 0.1, 0.9]))] = -np.inf
    to_free = draw(st.integers(1, max(1, n_segments // 2)))
    most_retired = draw(st.integers(to_free, 3 * to_free))
    return Candidates(np.array(segments), score, np.array(sizes)), n_segments, to_free, most_retired


@settings(max_examples=300, deadline=None)
@given(cases())
def test_frees_what_was_asked_and_keeps_the_best(case):
    candidates, n_segments, to_free, most_retired = case
    plan = plan_repack(candidates, n_segments, to_free, most_retired, ROOM)
    retired = plan.retired.tolist()
    assert to_free <= len(retired) <= most_retired
    assert len(set(retired)) == len(retired)
    assert set(retired) <= set(range(n_segments))
    of_retired = np.isin(candidates.segment, plan.retired)
    kept, dropped = plan.kept, of_retired & ~plan.kept
    assert not np.any(kept & ~of_retired)
    assert candidates.bytes[kept].sum() <= (len(retired) - to_free) * ROOM
    assert not np.any(candidates.score[kept] == np.inf)
    # Whatever stays is worth no less than whatever leaves: -inf first.
    if kept.any() and dropped.any():
        assert candidates.score[kept].max() <= candidates.score[dropped].min()


@settings(max_examples=100, deadline=None)
@given(cases())
def test_what_must_wait_stays_if_there_is_room(case):
    candidates, n_segments, to_free, _ = case
    waits = candidates.score == -np.inf
    plan = plan_repack(candidates, n_segments, to_free, n_segments, ROOM)
    # The room that is counted on: a segment less a row, but at least half of it.
    if candidates.bytes[waits].sum() <= (n_segments - to_free) * ROOM / 2:
        left = np.isin(candidates.segment, plan.retired) & ~plan.kept
        assert not np.any(left & waits)


def test_nothing_to_free_changes_nothing():
    candidates = Candidates(np.zeros(3, int), np.full(3, np.inf), np.full(3, 20))
    for to_free in (0, -2):
        plan = plan_repack(candidates, 1, to_free, 3, ROOM)
        assert len(plan.retired) == 0
        assert not plan.kept.any()


def test_empty_segments_are_retired_first():
    # Of the segments 0 to 3, the second and the last have nothing worth keeping.
    segment = np.repeat(np.arange(4), 10)
    score = np.where(np.isin(segment, [1, 3]), np.inf, -1.0)
    plan = plan_repack(Candidates(segment, score, np.full(40, 90)), 4, 2, 4, ROOM)
    assert plan.retired.tolist() == [1, 3]
    assert not plan.kept.any()


def test_rows_are_gathered_when_no_segment_is_empty():
    # Every second row is worth keeping: two segments become one.
    segment = np.repeat(np.arange(4), 10)
    score = np.where(np.arange(40) % 2, 1.0, -1.0)
    plan = plan_repack(Candidates(segment, score, np.full(40, 90)), 4, 1, 3, ROOM)
    of_retired = np.isin(segment, plan.retired)
    assert len(plan.retired) >= 2
    assert plan.kept[of_retired & (score < 0)].all()
