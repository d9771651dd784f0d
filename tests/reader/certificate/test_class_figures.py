"""Counts of classes, judgements of probabilities, the area under the ROC curve: in pieces as at once."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from streamsvm.reader.certificate.metrics import BINS, MOST_POINTS, Calibration, ClassCounts, Ranking, weighted


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


def auc(positive, negative) -> float | None:
    return Ranking(positive, negative).figures()["auc"]


def of_all_pairs(positive, negative) -> float:
    difference = np.subtract.outer(positive, negative)
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


@pytest.mark.parametrize("levels", [1, 3, 10**9], ids=["all tied", "many ties", "no ties"])
@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_it_is_the_share_of_pairs_in_order(monkeypatch, levels, at_once):
    monkeypatch.setattr("streamsvm.reader.certificate.metrics._SCORES_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, levels, 80).astype(float), rng.integers(0, levels, 130) - levels // 4
    expected = of_all_pairs(positive, negative)
    assert auc(positive, negative.astype(float)) == pytest.approx(expected, rel=1e-15)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), levels=st.sampled_from([1, 3, 10**9]), at_once=st.sampled_from([1, 7, 10**6]))
def test_pairs_count_as_much_as_they_weigh(seed, levels, at_once):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, 90) / 3.0
    weight = np.where(rng.random(90) < 0.2, 0.0, rng.lognormal(0.0, 2.0, 90))
    is_positive = np.arange(90) < 40
    weighed = scores + 1j * weight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsvm.reader.certificate.metrics._SCORES_AT_ONCE", at_once)
        found = Ranking(weighed[is_positive], weighed[~is_positive]).figures()
    expected = [of(is_positive, scores, sample_weight=weight) for of in (roc_auc_score, average_precision_score)]
    assert list(found.values()) == pytest.approx(expected, rel=1e-12)


def test_it_is_exact_where_classes_are_apart():
    assert auc(np.array([2.0, 3.0]), np.array([1.0, -5.0])) == 1.0
    assert auc(np.array([-2.0]), np.array([1.0, -1.0])) == 0.0


def test_there_is_none_of_one_class():
    assert auc(np.array([1.0]), np.empty(0)) is None
    assert auc(np.empty(0), np.array([1.0])) is None
    assert auc(np.array([2.0 + 0.0j]), np.array([1.0 + 1.0j])) is None
    assert auc(np.array([2.0 + 1.0j]), np.array([1.0 + 0.0j])) is None


def ranked(n_rows, levels, is_weighted, seed=0):
    """Classes (n_rows,), scores, weights or None, and their ranking."""
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < 0.3
    scores = np.round((rng.standard_normal(n_rows) + y) * levels) / levels
    weight = rng.lognormal(0.0, 1.0, n_rows) if is_weighted else None
    rows = scores if weight is None else weighted(scores, weight)
    return y, scores, weight, Ranking(rows[y], rows[~y])


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("n_rows", "levels"), [(300, 10**9), (300, 4), (20_000, 50)])
def test_curves_of_few_scores_have_all_points(n_rows, levels, is_weighted):
    y, scores, weight, ranking = ranked(n_rows, levels, is_weighted)
    found = ranking.curves()
    fpr, tpr, thresholds = roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
    assert found["threshold"] == [None, *thresholds[1:]]
    assert found["false_positive_rate"] == pytest.approx(fpr, rel=1e-12)
    assert found["true_positive_rate"] == pytest.approx(tpr, rel=1e-12)
    precision, _, _ = precision_recall_curve(y, scores, sample_weight=weight)
    assert found["precision"] == pytest.approx(precision[::-1], rel=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("at_once", [1000, 10**6])
def test_thinned_curves_keep_exact_points_ends_and_corners(monkeypatch, at_once, is_weighted):
    monkeypatch.setattr("streamsvm.reader.certificate.metrics._SCORES_AT_ONCE", at_once)
    y, scores, weight, ranking = ranked(20_000, 10**9, is_weighted)
    found = ranking.curves()
    fpr, tpr, thresholds = roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
    places = [0, *(np.searchsorted(-thresholds, -np.array(found["threshold"][1:])))]
    assert 500 < len(places) <= MOST_POINTS and places[-1] == len(fpr) - 1
    assert found["false_positive_rate"] == pytest.approx(fpr[places], rel=1e-10)
    assert found["true_positive_rate"] == pytest.approx(tpr[places], rel=1e-10)
    # Whatever the two errors cost, the best threshold is a corner.
    for slope in (0.1, 0.5, 1.0, 3.0):
        worth = np.array(found["true_positive_rate"]) - slope * np.array(found["false_positive_rate"])
        assert worth.max() == pytest.approx((tpr - slope * fpr).max(), rel=1e-9)
