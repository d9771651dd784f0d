"""scikit-learn routes metadata to estimators, and shows them as HTML."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from streamsvm import StreamSVC, StreamSVR


@pytest.mark.parametrize("made", [StreamSVC, StreamSVR])
def test_weights_are_routed_through_a_pipeline(made):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = np.sign(X[:, 0] + 0.3 * random.normal(size=60))
    weight = np.where(np.arange(60) % 2, 5.0, 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(MaxAbsScaler(), made(pace="fixed").set_fit_request(sample_weight=True))
        routed.fit(X, y, sample_weight=weight)
        refused = make_pipeline(MaxAbsScaler(), made(pace="fixed"))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
            refused.fit(X, y, sample_weight=weight)
        ignoring = made(pace="fixed").set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(ignoring, X, y, params={"sample_weight": weight}, cv=2, error_score="raise")
    scaled = MaxAbsScaler().fit_transform(X)
    direct = made(pace="fixed").fit(scaled, y, sample_weight=weight)
    assert np.array_equal(routed[-1].coef_, direct.coef_) and len(scores["test_score"]) == 2
    assert not np.array_equal(direct.coef_, made(pace="fixed").fit(scaled, y).coef_)


def test_estimators_are_shown_as_html():
    shown = make_pipeline(MaxAbsScaler(), StreamSVC(C=3.5))._repr_html_()
    assert "StreamSVC" in shown and "3.5" in shown
    fitted = StreamSVC().fit(np.array([[1.0], [-1.0]]), [1, 0])
    assert "fitted" in fitted._repr_html_()
