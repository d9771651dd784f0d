"""Rows that do not rest are given once each, some at a time, and take the alpha that comes back."""

import numpy as np
import pytest

from streamsvm.storage.rows.segment import Segment, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.trainer.distributed.shard import ActiveRowExport
from tests.contracts.objectives import plain_segment

N_ROWS = 3000


@pytest.fixture
def rows():
    """Of 200 values each, but one that is longer than a segment."""
    lengths = np.full(N_ROWS, 200)
    lengths[7] = 2 * SPILL_SEGMENT // 8
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    rng = np.random.default_rng(0)
    indices = np.zeros(indptr[-1], np.int32)
    return plain_segment(
        np.arange(N_ROWS), np.ones(N_ROWS), rng.random(N_ROWS), indptr, indices, rng.random(indptr[-1], np.float32)
    )


@pytest.fixture
def score():
    """Two of three rows do not rest."""
    return np.where(np.arange(N_ROWS) % 3, -1.0, 5.0).astype(np.float32)


@pytest.fixture
def given(score):
    return ActiveRowExport(score, at_once=2 * SPILL_SEGMENT)


@pytest.fixture
def windows(rows):
    return lambda is_active, _: iter([part(rows, 0, 1000), part(rows, 1000, N_ROWS)])


def part(rows, first, last):
    own = slice(rows.indptr[first], rows.indptr[last])
    columns = (each[first:last] for each in (rows.row_id, rows.class_code, rows.fold, rows.Qii))
    indptr = rows.indptr[first : last + 1] - rows.indptr[first]
    return Segment(*columns, indptr, rows.indices[own], rows.values[own])


def everything(given, windows, most=1000 * SPILL_SEGMENT):
    """Ids of the rows that each export has."""
    found = []
    while (made := given.some(windows, most))[0]:
        ids = np.concatenate([view(segment).row_id for segment in made[0]])
        assert np.array_equal(ids, made[1])
        found.append(ids)
    return found


def test_all_that_do_not_rest_are_given_once(given, windows, score):
    found = everything(given, windows)
    assert len(found) > 1
    ids = np.concatenate(found)
    assert sorted(ids) == np.flatnonzero(score < 0).tolist()
    assert np.array_equal(given.row_ids, ids)


@pytest.mark.parametrize("most", [1, 2 * SPILL_SEGMENT])
def test_no_more_than_there_is_room_for(given, windows, rows, most):
    """A row that is too long for that stays, and others are given."""
    ids = np.concatenate(everything(given, windows, most))
    assert 0.9 * SPILL_SEGMENT < rows.row_bytes[ids].sum() <= max(most, SPILL_SEGMENT)
    assert 7 not in ids
    assert given.slowdowns == {"pool_without_room"}


def test_who_has_none_to_give_gives_none(given, windows, score):
    score[:] = 5.0
    assert everything(given, windows) == []
    assert not len(given.row_ids)


def test_who_was_late_halfway_begins_anew(given, windows, score):
    given.some(windows, 1000 * SPILL_SEGMENT)
    given.forget()
    ids = np.concatenate(everything(given, windows))
    assert len(set(ids.tolist())) == len(ids) > 1900
    given.forget()
    score[:] = 5.0
    score[100:120] = -1.0
    assert [ids.tolist() for ids in everything(given, windows)] == [list(range(100, 120))]
