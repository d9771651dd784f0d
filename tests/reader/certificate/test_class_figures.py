"""Counts of classes and judgements of probabilities: in pieces as at once, and at their ends."""

import itertools
import math

import numpy as np
import pytest

from streamsvm.reader.certificate.calibration import BINS, Calibration
from streamsvm.reader.certificate.class_counts import ClassCounts


def random_classes(n_rows: int, n_classes: int):
    """Classes rows have, classes predicted, probabilities."""
    rng = np.random.default_rng(n_classes)
    shares = rng.dirichlet(np.ones(n_classes), n_rows)
    return rng.integers(0, n_classes, n_rows), shares.argmax(axis=1), shares


@pytest.mark.parametrize("n_classes", [2, 5])
def test_pieces_give_what_all_rows_give(n_classes):
    y, predicted, shares = random_classes(1000, n_classes)
    counts, calibrations = [ClassCounts(n_classes) for _ in "ab"], [Calibration() for _ in "ab"]
    for place, cuts in enumerate(([0, 1000], [0, 0, 1, 400, 1000])):
        for begin, end in itertools.pairwise(cuts):
            counts[place].add(y[begin:end], predicted[begin:end])
            calibrations[place].add(y[begin:end], predicted[begin:end], shares[begin:end])
    whole, parts = counts
    assert whole.by_class() == parts.by_class() and (whole.confusion == parts.confusion).all()
    assert whole.confusion.sum() == 1000
    whole, parts = (calibration.figures() for calibration in calibrations)
    assert parts["log_loss"] == pytest.approx(whole["log_loss"], rel=1e-12)
    assert parts["brier_score"] == pytest.approx(whole["brier_score"], rel=1e-12)
    assert [row["rows"] for row in parts["reliability"]] == [row["rows"] for row in whole["reliability"]]


def test_what_was_said_to_be_impossible_costs_much_but_not_all():
    calibration = Calibration()
    calibration.add(np.array([0, 1]), np.array([1, 0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    found = calibration.figures()
    assert found["log_loss"] == pytest.approx(-math.log(np.finfo(float).eps))
    assert found["brier_score"] == 1.0
    first, *between, last = found["reliability"]
    assert (first["rows"], first["share"], last["rows"], last["share"]) == (1, 1.0, 1, 0.0)
    assert len(found["reliability"]) == BINS and all(row["rows"] == 0 and row["share"] is None for row in between)


def test_the_worst_brier_score_of_several_classes_is_two():
    calibration = Calibration()
    calibration.add(np.array([0]), np.array([2]), np.array([[0.0, 0.0, 1.0]]))
    assert calibration.figures()["brier_score"] == 2.0
