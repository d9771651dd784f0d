"""Weights of rows as scikit-learn's ensembles pass them: of any size, mostly not representable as float32."""

from contextlib import nullcontext

import numpy as np
import pytest
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor, BaggingClassifier, StackingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.preprocessing import scale

from streamsvm import StreamSVC, StreamSVR, TrainingFailed
from streamsvm.errors import told_plainly
from streamsvm.sources import matrix
from streamsvm.workspace import Workspace

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ROUTED = {"enable_metadata_routing": True}
FEW = {"max_passes": 20, "threads": 1}


@pytest.fixture(scope="module")
def iris():
    """X (150, 4) and y of three classes."""
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def routed(estimator):
    with config_context(**ROUTED):
        return estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


@pytest.mark.filterwarnings("ignore::streamsvm.errors.SlowerTraining")
@pytest.mark.parametrize("weight", [1e38, 1e30], ids=str)
def test_a_fit_that_no_numbers_of_64_bits_can_end_says_so(weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=400))
    with pytest.warns(ConvergenceWarning, match="numbers of 64 bits"):
        fitted = StreamSVC().fit(X, y, sample_weight=np.full(400, weight))
    assert np.isfinite(fitted.coef_).all() and fitted.n_iter_ < 20


ENSEMBLES = {
    "boosted": lambda: AdaBoostClassifier(StreamSVC(**FEW), n_estimators=4),
    "boosted numbers": lambda: AdaBoostRegressor(StreamSVR(**FEW), n_estimators=2),
    "bagged": lambda: BaggingClassifier(StreamSVC(kernel="rbf", budget=20, **FEW), n_estimators=2),
    "calibrated": lambda: CalibratedClassifierCV(StreamSVC(loss="squared_hinge", **FEW), cv=2),
    "stacked": lambda: StackingClassifier(
        [("hinge", StreamSVC(**FEW)), ("logistic", StreamSVC(loss="logistic", **FEW))], StreamSVC(**FEW), cv=2
    ),
    "searched": lambda: GridSearchCV(routed(StreamSVC(multiclass="crammer_singer", **FEW)), {"C": [0.1, 1.0]}, cv=2),
    "one by one": lambda: OneVsRestClassifier(routed(StreamSVC(**FEW))),
    "in columns": lambda: MultiOutputRegressor(StreamSVR(loss="squared_epsilon_insensitive", **FEW)),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensembles_pass_weights(iris, name):
    X, y = iris
    weight = np.random.default_rng(1).dirichlet(np.ones(len(y)))
    with config_context(**ROUTED) if name in ("searched", "one by one") else nullcontext():
        target = np.c_[y, -y] if name == "in columns" else y
        fitted = ENSEMBLES[name]().fit(X, target, sample_weight=weight)
        assert fitted.predict(X).shape == target.shape


WAYS = {
    "hinge": StreamSVC(**FEW),
    "several C": StreamSVC(C=[0.1, 1.0], cv=2, **FEW),
    "crammer_singer": StreamSVC(multiclass="crammer_singer", **FEW),
    "logistic": StreamSVC(loss="logistic", **FEW),
    "kernel": StreamSVC(kernel="rbf", budget=20, **FEW),
    "epsilon_insensitive": StreamSVR(**FEW),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("weight", [0.1, 1e-9])
def test_every_way_to_train_bounds_dual_variables_by_the_weights_it_trains_with(iris, name, weight):
    """Checkpoints, which several problems make and rows that come in parts, would not hold alpha out of its box."""
    X, y = iris
    several = {"classes": np.unique(y)} if name not in ("several C", "epsilon_insensitive") else {}
    train = WAYS[name].fit if name == "several C" else WAYS[name].partial_fit
    fitted = train(X, y, sample_weight=np.full(len(y), weight), **several)
    assert len(fitted.predict(X)) == len(y)


def test_a_weight_that_training_has_for_nought_leaves_its_row_out(iris):
    X, y = iris
    weight = np.where(y == 2, 1e-60, 1.0)
    own, without = StreamSVC(**FEW).fit(X, y, sample_weight=weight), StreamSVC(**FEW).fit(X[y < 2], y[y < 2])
    assert np.allclose(own.coef_[0], -without.coef_[0], atol=1e-3)


def test_what_nobody_foresaw_is_told_as_a_failure(iris):
    def fails(*_):
        raise KeyError("unforeseen")

    space = Workspace(1000)
    space.add(matrix(*iris, None, None, None))
    with pytest.raises(TrainingFailed, match="KeyError: 'unforeseen'") as failed, told_plainly():
        space.train({"solver": "streamsvm"}, fails)
    space.close()
    assert (failed.value.code, type(failed.value.__cause__.__cause__)) == ("process_died", KeyError)
