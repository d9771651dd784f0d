"""Which rows a fold has, and what becomes of those that are left out."""

import numpy as np
import pytest

from streamsvm.reader.certificate.kept_values import HeldOut, read_held_out, read_weights
from streamsvm.storage.blocks.block import Piece
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import Rows
from streamsvm.storage.rows.row_runs import RUN
from streamsvm.storage.rows.segment import CODE, ROW_ID, TARGET
from streamsvm.trainer.problem.row_encoder import RowEncoder, deal, fold_of, write_folds
from tests.contracts.problems import make_dataset, random_problem
from tests.features import constant


def piece(labels, first_row=0, group=None, weight=None):
    n_rows = len(labels)
    indptr, indices = np.arange(n_rows + 1, dtype=np.int64), np.zeros(n_rows, np.int32)
    rows = Rows(np.array(labels, float), indptr, indices, np.ones(n_rows, np.float32), weight, group)
    return Piece(rows, np.ones(n_rows), first_row)


def folds_of(rows, of, **options):
    """The folds of the rows of a piece."""
    return RowEncoder([1.0], n_folds=of, **options).encode(rows).fold


@pytest.mark.parametrize("of", [2, 5, 7])
def test_folds_are_about_as_large_as_each_other_and_of_a_row_alone(of):
    ids = np.arange(70_000)
    folds = fold_of(ids, of, 3)
    counts = np.bincount(folds, minlength=of)
    assert counts.min() > 0.95 * len(ids) / of and len(counts) == of
    np.testing.assert_array_equal(fold_of(ids[::-7], of, 3), folds[::-7])
    assert np.mean(fold_of(ids, of, 4) == folds) < 1.2 / of


@pytest.mark.parametrize("of", [2, 5, 7])
def test_each_fold_has_as_many_rows_of_each_class_within_one(of):
    codes = np.random.default_rng(of).choice(4, 3000, p=[0.9, 0.09, 0.009, 0.001])
    folds, dealt = deal(codes, np.zeros(4, int), of, 3), np.zeros(4, int)
    for code in range(4):
        counts = np.bincount(folds[codes == code], minlength=of)
        assert len(counts) == of and np.ptp(counts) <= 1
    in_pieces = [deal(part, dealt, of, 3) for part in np.split(codes, [1, 70, 2000])]
    np.testing.assert_array_equal(np.concatenate(in_pieces), folds)
    np.testing.assert_array_equal(dealt, np.bincount(codes, minlength=4))
    assert np.mean(deal(codes, np.zeros(4, int), of, 4) == folds) < 1.2 / of


@pytest.mark.parametrize("n_rows", [50, 9000])
def test_rows_of_a_dataset_are_in_the_folds_they_are_dealt_to(tmp_path, n_rows):
    X, _ = random_problem(n_rows, 20, 2)
    dataset = Dataset(make_dataset(tmp_path / "data", X, np.arange(n_rows) % 3))
    pieces = [
        dataset.piece(location) for block in range(len(dataset.manifest.blocks)) for location in dataset.pieces(block)
    ]
    label = np.concatenate([each.rows.label for each in sorted(pieces, key=lambda each: each.first_row)])
    np.testing.assert_array_equal(np.concatenate(list(dataset.labels())), label)
    write_folds(tmp_path / "folds", dataset.labels(), (0.0, 1.0, 2.0), 5, 3)
    folds = np.fromfile(tmp_path / "folds", CODE)
    for each in pieces:
        own = RowEncoder([0.0, 1.0, 2.0], n_folds=5, seed=3, folds=folds).encode(each).fold
        np.testing.assert_array_equal(own, folds[each.first_row : each.first_row + len(each)])
    for part in (folds[label == k] for k in range(3)):
        assert np.ptp(np.bincount(part, minlength=5)) <= 1


def test_every_row_is_left_out_once():
    folds = folds_of(piece([1.0] * 50, 100), 3)
    assert set(folds.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(folds[10:], folds_of(piece([1.0] * 40, 110), 3))


def test_rows_of_a_part_are_in_the_folds_they_have_among_all():
    every = folds_of(piece([1.0] * 100), 3)
    part_rows = np.array([[10, 20], [50, 30]], RUN)
    part = folds_of(piece([1.0] * 50), 3, part_rows=part_rows)
    np.testing.assert_array_equal(part, np.concatenate([every[10:30], every[50:80]]))


def test_rows_of_a_group_are_in_one_fold():
    group = np.repeat(np.arange(20, dtype=np.uint64) << np.uint64(40), 5)
    folds = folds_of(piece([1.0] * 100, group=group), 4).reshape(20, 5)
    assert (folds == folds[:, :1]).all() and set(folds[:, 0].tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("bias", [None, 1.0])
def test_columns_of_rows_say_one_thing_each(bias):
    labels, weight = np.tile([2.0, 3.0], 50), np.full(100, 7.0)
    encoder = RowEncoder([3.0, 2.0], n_folds=2, has_weights=True, maps=constant(1, bias))
    rows = encoder.encode(piece(labels, weight=weight))
    np.testing.assert_array_equal(rows.class_code, labels == 2.0)
    np.testing.assert_array_equal(rows.fold, fold_of(np.arange(100), 2, 0))
    np.testing.assert_array_equal(rows.weight, weight)
    assert not len(rows.target)
    np.testing.assert_array_equal(encoder.encode(piece(labels)).weight, np.ones(100))
    plain = RowEncoder([3.0]).encode(piece(labels))
    assert not len(plain.weight) and not plain.fold.any() and np.array_equal(plain.class_code, labels == 2.0)


def test_in_regression_the_label_is_the_target():
    labels = np.arange(-50.0, 50.0)
    rows = RowEncoder(is_regression=True, n_folds=2).encode(piece(labels))
    np.testing.assert_array_equal(rows.target, labels)
    np.testing.assert_array_equal(rows.fold, fold_of(np.arange(100), 2, 0))
    assert not rows.class_code.any()


def test_what_is_found_of_them_is_read_back(tmp_path):
    """Rows whose label is 0 are not among them for that."""
    held = HeldOut(tmp_path, 10)
    out, target = np.array([True, True, False, False]), np.array([1.0, 0.25, 0.0, -2.0], TARGET)
    columns = (each[:, np.newaxis] for each in (out, target, np.array([0.5, -1.5, 9.0, 9.0])))
    held.add(np.array([7, 3, 1, 2], ROW_ID), *columns, np.empty(0))
    ids, targets, values = read_held_out(tmp_path, 10)
    assert (ids.tolist(), targets.tolist(), values.tolist()) == ([3, 7], [0.25, 1.0], [-1.5, 0.5])
    assert read_weights(tmp_path, 10) is None


def test_each_lane_has_the_rows_that_it_leaves_out(tmp_path):
    """Lane 1 leaves none out, lane 3 only fills the axis; a target of one column is that of all lanes."""
    held, values = HeldOut(tmp_path, 5, (0, 2)), np.arange(12.0).reshape(3, 4)
    out = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]], bool)
    held.add(np.array([4, 0, 2], ROW_ID), out, np.array([[5.0], [6.0], [7.0]], TARGET), values, np.empty(0))
    found = [[each.tolist() for each in read_held_out(tmp_path, 5, lane)] for lane in (0, 1, 2)]
    assert found == [[[2, 4], [7.0, 5.0], [8.0, 0.0]], [[], [], []], [[0, 2], [6.0, 7.0], [6.0, 10.0]]]


def test_where_no_lane_leaves_rows_out_there_are_no_bytes_of_them(tmp_path):
    assert HeldOut(tmp_path, 5, ()) and sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_weights_are_read_back_to_the_last_digit(tmp_path):
    """Rows that were added without weights have 1; what an earlier run left there is not read."""
    (tmp_path / "held_out.weight").write_bytes(bytes(24))
    held = HeldOut(tmp_path, 4)
    assert read_weights(tmp_path, 4) is None
    out, target = np.ones((2, 1), bool), np.ones((2, 1), TARGET)
    for ids, weight in (([3, 0], np.array([0.1, 7.3])), ([1, 2], np.empty(0))):
        held.add(np.array(ids, ROW_ID), out, target, np.zeros((2, 1)), weight)
    assert read_weights(tmp_path, 4).tolist() == [7.3, 1.0, 1.0, 0.1]
