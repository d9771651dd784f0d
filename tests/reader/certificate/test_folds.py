"""Which rows a fold has, and what becomes of those that are left out."""

import numpy as np
import pytest

from streamsvm.reader.certificate.folds import HeldOut, LeftOut, fold_of, read_held_out, read_weights
from streamsvm.reader.stream.pieces import Examples
from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.rows.csr import Rows
from streamsvm.storage.rows.row_runs import RUN
from streamsvm.storage.rows.segment import ROW_ID, TARGET
from tests.features import constant


def piece(labels, first_row=0, group=None, weight=None):
    n_rows = len(labels)
    rows = Rows(
        np.array(labels, float),
        np.arange(n_rows + 1, dtype=np.int64),
        np.zeros(n_rows, np.int32),
        np.ones(n_rows, np.float32),
        weight=weight,
        group=group,
    )
    return Piece(rows, np.ones(n_rows), first_row)


def left_out(fold, rows, **options):
    """Which rows of a piece are."""
    return Examples(1.0, left_out=fold, **options).of(rows).y == 0


@pytest.mark.parametrize("of", [2, 5, 7])
def test_folds_are_about_as_large_as_each_other_and_of_a_row_alone(of):
    ids = np.arange(70_000)
    folds = fold_of(ids, of, 3)
    counts = np.bincount(folds, minlength=of)
    assert counts.min() > 0.95 * len(ids) / of and len(counts) == of
    np.testing.assert_array_equal(fold_of(ids[::-7], of, 3), folds[::-7])
    assert np.mean(fold_of(ids, of, 4) == folds) < 1.2 / of


def test_every_row_is_left_out_once():
    of_rows = [left_out(LeftOut(fold, 3, 0), piece([1.0] * 50, 100)) for fold in range(3)]
    assert (np.sum(of_rows, axis=0) == 1).all()
    np.testing.assert_array_equal(of_rows[1][10:], left_out(LeftOut(1, 3, 0), piece([1.0] * 40, 110)))


def test_rows_of_a_part_are_in_the_folds_they_have_among_all():
    every = left_out(LeftOut(1, 3, 0), piece([1.0] * 100))
    part_rows = np.array([[10, 20], [50, 30]], RUN)
    part = left_out(LeftOut(1, 3, 0), piece([1.0] * 50), part_rows=part_rows)
    np.testing.assert_array_equal(part, np.concatenate([every[10:30], every[50:80]]))


def test_rows_of_a_group_are_in_one_fold():
    group = np.repeat(np.arange(20, dtype=np.uint64) << np.uint64(40), 5)
    held = [left_out(LeftOut(fold, 4, 0), piece([1.0] * 100, group=group)).reshape(20, 5) for fold in range(4)]
    assert all((each == each[:, :1]).all() for each in held)
    assert len({each[:, 0].tobytes() for each in held}) == 4


@pytest.mark.parametrize("bias", [None, 1.0])
def test_rows_left_out_have_y_nought_and_their_target_aside(bias):
    labels, weight = np.tile([2.0, 3.0], 50), np.full(100, 7.0)
    rows = Examples(3.0, constant(1, bias), left_out=LeftOut(0, 2, 0)).of(piece(labels, weight=weight))
    held = LeftOut(0, 2, 0).holds(np.arange(100))
    assert 20 < np.count_nonzero(held) < 80
    assert (rows.y[held] == 0).all()
    np.testing.assert_array_equal(rows.target, np.where(labels == 3.0, 7.0, -7.0))
    np.testing.assert_array_equal(rows.y[~held], rows.target[~held])
    assert Examples(3.0, constant(1, bias)).of(piece(labels)).target is None


def test_where_y_is_the_label_rows_left_out_have_none():
    labels = np.arange(-50.0, 50.0)
    rows = Examples(None, left_out=LeftOut(1, 2, 0)).of(piece(labels))
    np.testing.assert_array_equal(np.isnan(rows.y), LeftOut(1, 2, 0).holds(np.arange(100)))
    np.testing.assert_array_equal(rows.target, labels)


def test_what_is_found_of_them_is_read_back(tmp_path):
    """Rows whose label is 0 are not among them for that."""
    held = HeldOut(tmp_path, 10)
    y, target = np.array([0.0, np.nan, 0.0, -2.0], TARGET), np.array([1.0, 0.25, 0.0, -2.0], TARGET)
    held.add(np.array([7, 3, 1, 2], ROW_ID), y != target, target, np.array([0.5, -1.5, 9.0, 9.0]))
    ids, targets, values = read_held_out(tmp_path, 10)
    assert (ids.tolist(), targets.tolist(), values.tolist()) == ([3, 7], [0.25, 1.0], [-1.5, 0.5])
    assert read_weights(tmp_path, 10) is None


def test_weights_are_read_back_to_the_last_digit(tmp_path):
    """Rows that were added without weights have 1; what an earlier run left there is not read."""
    (tmp_path / "held_out.weight").write_bytes(bytes(24))
    held = HeldOut(tmp_path, 4)
    assert read_weights(tmp_path, 4) is None
    out, target = np.ones(2, bool), np.ones(2, TARGET)
    for ids, weight in (([3, 0], np.array([0.1, 7.3])), ([1, 2], None)):
        held.add(np.array(ids, ROW_ID), out, target, np.zeros(2), weight)
    assert read_weights(tmp_path, 4).tolist() == [7.3, 1.0, 1.0, 0.1]
