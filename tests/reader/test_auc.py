"""The area under the ROC curve against counting every pair."""

import numpy as np
import pytest

from reader.auc import area_under_curve


def of_all_pairs(positive, negative) -> float:
    difference = np.subtract.outer(positive, negative)
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


@pytest.mark.parametrize("levels", [1, 3, 10**9], ids=["all tied", "many ties", "no ties"])
@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_it_is_the_share_of_pairs_in_order(monkeypatch, levels, at_once):
    monkeypatch.setattr("reader.auc._SCORES_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, levels, 80).astype(float), rng.integers(0, levels, 130) - levels // 4
    expected = of_all_pairs(positive, negative)
    assert area_under_curve(positive, negative.astype(float)) == pytest.approx(expected, rel=1e-15)


def test_it_is_exact_where_classes_are_apart():
    assert area_under_curve(np.array([2.0, 3.0]), np.array([1.0, -5.0])) == 1.0
    assert area_under_curve(np.array([-2.0]), np.array([1.0, -1.0])) == 0.0


def test_there_is_none_of_one_class():
    assert area_under_curve(np.array([1.0]), np.empty(0)) is None
    assert area_under_curve(np.empty(0), np.array([1.0])) is None
