"""The area under the ROC curve against counting every pair."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from streamsvm.reader.certificate.auc import area_under_curve


def of_all_pairs(positive, negative) -> float:
    difference = np.subtract.outer(positive, negative)
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


@pytest.mark.parametrize("levels", [1, 3, 10**9], ids=["all tied", "many ties", "no ties"])
@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_it_is_the_share_of_pairs_in_order(monkeypatch, levels, at_once):
    monkeypatch.setattr("streamsvm.reader.certificate.auc._SCORES_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, levels, 80).astype(float), rng.integers(0, levels, 130) - levels // 4
    expected = of_all_pairs(positive, negative)
    assert area_under_curve(positive, negative.astype(float)) == pytest.approx(expected, rel=1e-15)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), levels=st.sampled_from([1, 3, 10**9]), at_once=st.sampled_from([1, 7, 10**6]))
def test_pairs_count_as_much_as_they_weigh(seed, levels, at_once):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, 90) / 3.0
    weight = np.where(rng.random(90) < 0.2, 0.0, rng.lognormal(0.0, 2.0, 90))
    is_positive = np.arange(90) < 40
    weighed = scores + 1j * weight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsvm.reader.certificate.auc._SCORES_AT_ONCE", at_once)
        found = area_under_curve(weighed[is_positive], weighed[~is_positive])
    assert found == pytest.approx(roc_auc_score(is_positive, scores, sample_weight=weight), rel=1e-12)


def test_it_is_exact_where_classes_are_apart():
    assert area_under_curve(np.array([2.0, 3.0]), np.array([1.0, -5.0])) == 1.0
    assert area_under_curve(np.array([-2.0]), np.array([1.0, -1.0])) == 0.0


def test_there_is_none_of_one_class():
    assert area_under_curve(np.array([1.0]), np.empty(0)) is None
    assert area_under_curve(np.empty(0), np.array([1.0])) is None
    assert area_under_curve(np.array([2.0 + 0.0j]), np.array([1.0 + 1.0j])) is None
    assert area_under_curve(np.array([2.0 + 1.0j]), np.array([1.0 + 0.0j])) is None
