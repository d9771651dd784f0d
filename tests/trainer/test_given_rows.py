"""Rows that do not rest are given once each, some at a time, and take the alpha that comes back."""

import numpy as np
import pytest

from streamsvm.storage.rows.packing import split
from streamsvm.storage.rows.segment import ROW_ID, Segment, view
from streamsvm.storage.rows.spill_file import SPILL_SEGMENT
from streamsvm.storage.run.rounds import GIVEN, GIVEN_ALPHA, TAKEN_ALPHA
from streamsvm.trainer.distributed.active_row_export import ActiveRowExport
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


@pytest.fixture(params=[(N_ROWS, 1), (N_ROWS, 4)], ids=str)
def alpha(request):
    return np.random.default_rng(1).random(request.param)


@pytest.fixture
def score():
    """Two of three rows do not rest."""
    return np.where(np.arange(N_ROWS) % 3, -1.0, 5.0).astype(np.float32)


@pytest.fixture
def given(tmp_path, rows, alpha, score):
    made = ActiveRowExport(tmp_path, alpha, score, at_once=2 * SPILL_SEGMENT)
    made.rows_from(lambda is_active, _: iter([part(rows, 0, 1000), part(rows, 1000, N_ROWS)]))
    return made


def part(rows, first, last):
    own = slice(rows.indptr[first], rows.indptr[last])
    columns = (each[first:last] for each in (rows.row_id, rows.class_code, rows.fold, rows.Qii))
    indptr = rows.indptr[first : last + 1] - rows.indptr[first]
    return Segment(*columns, indptr, rows.indices[own], rows.values[own])


def written(directory):
    """Ids of the rows, and their alpha, as they lie there."""
    segments = [view(each) for each in split((directory / GIVEN).read_bytes())]
    ids = np.concatenate([np.empty(0, ROW_ID), *(each.row_id for each in segments)])
    return ids, np.load(directory / GIVEN_ALPHA)


def everything(given, directory, most=1000 * SPILL_SEGMENT):
    found = []
    while True:
        given.write_some(most)
        ids, alpha = written(directory)
        if not len(ids):
            return found
        found.append((ids, alpha))


def test_all_that_do_not_rest_are_given_once_with_their_alpha(given, tmp_path, alpha, score):
    found = everything(given, tmp_path)
    assert len(found) > 1
    ids = np.concatenate([ids for ids, _ in found])
    expected = np.flatnonzero(score < 0)
    assert sorted(ids) == expected.tolist()
    assert np.array_equal(np.concatenate([own for _, own in found]), alpha[ids])


@pytest.mark.parametrize("most", [1, 2 * SPILL_SEGMENT])
def test_no_more_than_there_is_room_for(given, tmp_path, rows, most):
    """A row that is too long for that stays, and others are given."""
    found = everything(given, tmp_path, most)
    ids = np.concatenate([ids for ids, _ in found])
    assert 0.9 * SPILL_SEGMENT < rows.row_bytes[ids].sum() <= max(most, SPILL_SEGMENT)
    assert 7 not in ids
    assert given.slowdowns == {"pool_without_room"}


def test_what_comes_back_is_taken_by_the_rows_that_were_given(given, tmp_path, alpha):
    ids = np.concatenate([ids for ids, _ in everything(given, tmp_path)])
    before, new = alpha.copy(), np.random.default_rng(2).random(alpha[ids].shape)
    np.save(tmp_path / TAKEN_ALPHA, new)
    assert given.take_alpha()
    assert np.array_equal(alpha[ids], new)
    others = np.setdiff1d(np.arange(N_ROWS), ids)
    assert np.array_equal(alpha[others], before[others])
    assert not given.take_alpha()  # it is there once


def test_who_had_none_to_give_takes_none(given, tmp_path, alpha, score):
    score[:] = 5.0
    before = alpha.copy()
    assert everything(given, tmp_path) == []
    np.save(tmp_path / TAKEN_ALPHA, alpha[:0])
    assert given.take_alpha()
    assert np.array_equal(alpha, before)


def test_who_was_late_halfway_begins_anew(given, tmp_path, alpha):
    given.write_some(1000 * SPILL_SEGMENT)
    given.forget()
    ids = np.concatenate([ids for ids, _ in everything(given, tmp_path)])
    assert len(set(ids.tolist())) == len(ids) > 1900
    np.save(tmp_path / TAKEN_ALPHA, np.zeros_like(alpha[ids]))
    assert given.take_alpha()
    assert not alpha[ids].any()


def test_another_time_begins_anew(given, tmp_path, score):
    given.write_some(1000 * SPILL_SEGMENT)
    assert not given.take_alpha()  # given up
    score[:] = 5.0
    score[100:120] = -1.0
    assert [ids.tolist() for ids, _ in everything(given, tmp_path)] == [list(range(100, 120))]
