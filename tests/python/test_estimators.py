"""The estimators among scikit-learn's own tools, and what they say of a model."""

import lzma
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

from streamsvm import InvalidInput, StreamSVC, StreamSVR, load
from streamsvm.base import given_ends
from streamsvm.errors import SlowerTraining, TrainingError, in_python
from streamsvm.service.jobs.fields.spec import parse_spec
from tests.contracts.problems import random_problem

FOUR = np.array(["spring", "summer", "autumn", "winter"])
# Estimators pickled at cbc6d94b, each with rows, and what it predicted for them.
OLD = pickle.loads(lzma.decompress(Path(__file__).with_name("estimators-0.2.0.pickle.xz").read_bytes()))


@pytest.fixture(scope="module")
def problem():
    """X (300, 20), dense, and y."""
    X, y = random_problem(300, 20)
    return np.asarray(X.todense() if sparse.issparse(X) else X), y


@pytest.fixture(scope="module")
def seasons():
    """Rows of four classes that can be told apart."""
    rng = np.random.default_rng(3)
    places = np.repeat(np.arange(4), 40)
    return rng.normal(size=(160, 4)) + 4 * np.eye(4)[places], FOUR[places]


def test_the_optimum_is_that_of_liblinear(problem):
    X, y = problem
    own = StreamSVC(tolerance=1e-8).fit(X, y)
    theirs = LinearSVC(loss="hinge", tol=1e-8, max_iter=1_000_000).fit(X.astype(np.float32).astype(float), y)
    assert np.allclose(own.coef_, theirs.coef_, atol=1e-4) and np.allclose(own.intercept_, theirs.intercept_, atol=1e-4)
    assert own.converged_ and own.certificate_.gap <= 1e-8
    assert 0 <= own.certificate_.relative_duality_gap < 1e-6
    assert own.certificate_.gap == own.certificate_.m_plus - own.certificate_.m_minus
    assert len(own.history_) == own.n_iter_ >= 1


@pytest.mark.parametrize("name", OLD)
def test_pickles_of_version_0_2_predict_what_they_predicted(name):
    pickled, X, predicted = OLD[name]
    X = pandas.DataFrame(X) if isinstance(X, dict) else X
    assert pickle.loads(pickled).predict(X).tolist() == pytest.approx(predicted)


def test_matrices_and_frames_make_one_model(problem):
    X, y = problem
    names = [f"f{k:02}" for k in range(X.shape[1])]  # in order: sums over a row are made in that of names
    plain = StreamSVC().fit(X, y)
    for other in (sparse.csr_matrix(X), sparse.csc_array(X), X.astype(np.float32).astype(float)):
        assert np.array_equal(StreamSVC().fit(other, y).coef_, plain.coef_)
    for frame in (pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
        fitted = StreamSVC().fit(frame, y)
        assert np.array_equal(fitted.coef_, plain.coef_) and fitted.feature_names_in_.tolist() == names
        assert np.array_equal(fitted.predict(frame), plain.predict(X))


def test_labels_of_any_type(seasons):
    X, y = seasons
    fitted = StreamSVC().fit(X, y)
    assert fitted.classes_.tolist() == sorted(FOUR) and fitted.score(X, y) > 0.95
    assert fitted.coef_.shape == (4, 4) and fitted.intercept_.shape == (4,)
    number = np.unique(y, return_inverse=True)[1]
    for times in (
        number * np.timedelta64(-3, "s"),
        number * np.timedelta64(1, "h") + np.datetime64("2024-01-31", "ns"),
    ):
        fitted = StreamSVC().fit(X, pandas.Series(times))
        assert np.array_equal(fitted.classes_, np.unique(times)) and fitted.predict(X).dtype == times.dtype
        assert fitted.score(X, times) > 0.95
    # That of two classes whose order is not that in which they came.
    two = np.isin(y, ["spring", "autumn"])
    fitted = StreamSVC().fit(X[two], y[two])
    assert np.array_equal(fitted.predict(X[two]), np.where(fitted.decision_function(X[two]) > 0, "spring", "autumn"))


@pytest.mark.parametrize("parameters", [{"probability": "sigmoid"}, {"loss": "logistic", "max_passes": 50}])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_probabilities(seasons, parameters):
    X, y = seasons
    for rows in (y == y, np.isin(y, ["spring", "autumn"])):
        fitted = StreamSVC(**parameters).fit(X[rows], y[rows])
        shares = fitted.predict_proba(X[rows])
        assert shares.shape == (rows.sum(), len(fitted.classes_)) and np.allclose(shares.sum(axis=1), 1)
        assert (fitted.classes_[shares.argmax(axis=1)] == fitted.predict(X[rows])).mean() > 0.95
    assert not hasattr(StreamSVC(), "predict_proba")


def test_class_weights_move_the_plane(problem):
    X, y = problem
    first, second = np.unique(y)
    plain, balanced, heavy = (
        StreamSVC(class_weight=weight).fit(X, y) for weight in (None, "balanced", {second: 20.0, first: 0.05})
    )
    assert (heavy.predict(X) == second).sum() > (plain.predict(X) == second).sum()
    counts = {label: len(y) / (2 * (y == label).sum()) for label in (first, second)}
    assert np.array_equal(balanced.coef_, StreamSVC(class_weight=counts).fit(X, y).coef_)
    with pytest.raises(ValueError, match="class_weight"):
        StreamSVC(class_weight={"nobody": 2.0}).fit(X, y)


def test_several_values_of_C(problem):
    X, y = problem
    fitted = StreamSVC([1.0, 0.001, 0.1], cv=3).fit(X, y)
    found = fitted.cv_results_
    assert found["param_C"].tolist() == [0.001, 0.1, 1.0] and found["params"][0] == {"C": 0.001}
    splits = np.column_stack([found[f"split{k}_test_score"] for k in range(3)])
    assert np.allclose(splits.mean(axis=1), found["mean_test_score"])
    assert np.allclose(splits.std(axis=1), found["std_test_score"])
    assert found["rank_test_score"][fitted.best_index_] == 1 and found["param_C"][fitted.best_index_] == fitted.C_
    with pytest.raises(ValueError, match="cv"):
        StreamSVC([1.0, 2.0]).fit(X, y)


def test_regression_and_its_folds():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, -2.0, 0.5] + 3
    fitted = StreamSVR([0.001, 10.0], epsilon=0.01, cv=2, max_passes=300).fit(X, y)
    assert fitted.C_ == 10.0 and fitted.score(X, y) > 0.99 and fitted.coef_.shape == (3,)
    assert (fitted.cv_results_["mean_test_score"] <= 0).all()
    assert np.allclose(-fitted.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_mse"])
    assert not hasattr(fitted, "decision_function")


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_counts_rows_by_their_weight_as_liblinear_does(loss):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 4)).astype(np.float32).astype(float)
    y = (X @ rng.normal(size=4) + 0.3 * rng.normal(size=60)).astype(np.float32).astype(float)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], 60)

    def objective(model):
        w = np.append(model.coef_, model.intercept_)
        excess = np.maximum(0.0, np.abs(X @ w[:-1] + w[-1] - y) - 0.1)
        return w @ w / 2 + weight @ (excess if loss == "epsilon_insensitive" else excess**2)

    own = StreamSVR(loss=loss, tolerance=None, relative_gap=5e-7, max_passes=20_000)
    theirs = LinearSVR(loss=loss, epsilon=0.1, tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, y, weight)
    found, least = objective(own.fit(X, y, weight)), objective(theirs)
    assert own.converged_ and found == pytest.approx(least, rel=1e-6)
    assert own.certificate_.primal_objective == pytest.approx(found, rel=1e-6)
    assert objective(clone(own).fit(X, y)) > least * 1.001
    # In two parts, and as chunks of an iterator.
    parts = [(X[rows], y[rows], weight[rows]) for rows in (slice(35), slice(35, 60))]
    assert objective(clone(own).fit(iter(parts))) == pytest.approx(least, rel=1e-6)
    again = clone(own)
    for part in parts:
        again.partial_fit(*part)
    assert objective(again) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"C": -1.0}, "C_range"),
        ({"solver": "dcd", "solver_options": {"momentum": 1}}, "solver_option"),
        ({"solver_options": {"pace": "fixed"}}, "solver_option"),
        ({"solver_options": {"updates_per_row": 0}}, "updates_per_row_range"),
    ],
)
def test_parameters_are_those_of_a_job(problem, parameters, code):
    with pytest.raises(InvalidInput) as caught:
        StreamSVC(**parameters).fit(*problem)
    assert caught.value.code == code and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (None, 1e-4)),
        ({"tolerance": 0.1}, (0.1, None)),
        ({"relative_gap": 0.1}, (None, 0.1)),
        ({"relative_gap": None}, (None, None)),
        ({"tolerance": 0.1, "relative_gap": 0.2}, (0.1, 0.2)),
        ({"kernel": "rbf"}, (1e-3, None)),
        ({"kernel": "rbf", "tolerance": 0.1}, (0.1, None)),
        ({"kernel": "rbf", "relative_gap": None}, (None, None)),
    ],
)
def test_training_ends_where_a_job_of_these_parameters_does(parameters, expected):
    given = {name: value for name, value in parameters.items() if name != "kernel"}
    fields = given_ends(given.get("tolerance"), given.get("relative_gap", "auto"))
    spec = parse_spec({"dataset": "d", "kernel": parameters.get("kernel", "linear"), **fields})
    assert StreamSVC(**parameters)._ends == (spec.tolerance, spec.relative_gap) == expected


def test_both_ends_have_to_be_reached(problem):
    fitted = StreamSVC(C=10.0, tolerance=1e-3, relative_gap=0.5).fit(*problem)
    assert fitted.converged_ and fitted.certificate_.gap <= 1e-3
    with pytest.warns(ConvergenceWarning, match=r"M\+ - M- is .*; the relative duality gap is .*; raise max_passes"):
        fitted = StreamSVC(solver="dcd", tolerance=1e-12, relative_gap=0.99, max_passes=2).fit(*problem)
    assert not fitted.converged_


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_passes": 2}, "not converged after 2 passes: .*raise max_passes$"),
        ({"max_seconds": 1e-6}, "raise max_seconds$"),
        ({"max_passes": 1, "kernel": "rbf", "solver": "bsca"}, "after 1 pass: raise max_passes or scale X$"),
        (
            {"max_passes": 2, "pace": "fixed", "solver": "streamsvm"},
            r'raise max_passes or set features=\["scale"\] or leave out pace="fixed", which takes no Newton steps$',
        ),
    ],
)
def test_a_warning_names_what_ended_training_and_what_helps(problem, given, told):
    """Scaling helps where no Newton steps make up for scales far apart."""
    X, y = problem
    if {"pace", "kernel"} & given.keys():
        X = X * np.where(np.arange(X.shape[1]) == 1, 1e6, 1.0)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        StreamSVC(**{"solver": "dcd", "tolerance": 1e-12, **given}).fit(X, y)
    (warning,) = (str(each.message) for each in issued if each.category is ConvergenceWarning)
    assert re.search(told, warning), warning


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ('Ask for "features": ["scale"].', 'Ask for features=["scale"].'),
        ("set index_base=0", 'set input_options={"index_base": 0}'),
        ("set encoding=windows-1252 if", 'set input_options={"encoding": "windows-1252"} if'),
        ("set label_column to a name; label_type=string", 'set y to a name; input_options={"label_type": "string"}'),
        ("name it: label_column=-1 is the last", "name it: y=-1 is the last"),
        ("leave it out, or name it: ?label_column=", "leave it out, or name it: ?label_column="),
        ("leave them out: drop_columns", 'leave them out: input_options["drop_columns"]'),
        ("Raise memory_bytes, or ask for fewer values of C", "Raise memory_bytes, or ask for fewer values of C"),
    ],
)
def test_hints_name_arguments(hint, expected):
    assert in_python(hint) == TrainingError("", "code", hint).hint == expected


def test_a_loaded_model_ends_where_the_one_that_was_saved_did(problem, tmp_path):
    for name, parameters in {"a": {}, "b": {"tolerance": 0.1}, "c": {"relative_gap": None, "max_passes": 3}}.items():
        fitted = StreamSVC(solver="dcd", **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(*problem)
        fitted.save(tmp_path / f"{name}.npz")
        assert load(tmp_path / f"{name}.npz")._ends == fitted._ends


def test_the_gap_is_drawn(problem):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    fitted = StreamSVC(solver="dcd", max_passes=200, tolerance=1e-2).fit(*problem)
    (curve, bound) = fitted.plot_convergence().get_lines()
    assert curve.get_ydata()[-1] <= 1e-2 and bound.get_ydata()[0] == 1e-2
    assert len(curve.get_xdata()) == len(fitted.history_)
    sweeping = StreamSVC().fit(*problem)
    assert len(sweeping.plot_convergence().get_lines()[0].get_xdata()) > len(sweeping.history_)


def test_a_bar_is_shown_to_those_who_ask(problem, capsys, monkeypatch):
    StreamSVC().fit(*problem)
    assert capsys.readouterr().err == ""
    StreamSVC(verbose=True).fit(*problem)
    said = capsys.readouterr().err
    assert "100%" in said and "M+ - M-" in said
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    StreamSVC(verbose=True).fit(*problem)
    assert "pass 1: M+ - M-" in capsys.readouterr().err


def test_rows_that_stayed_behind_are_missed(problem):
    X, y = problem
    model = StreamSVC().partial_fit(X, y)
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="pickled"):
        back.partial_fit(X, y)
    assert back.fit(X, y).partial_fit(X, y).n_features_in_ == X.shape[1]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_values_too_far_apart_for_64_bits_end_training_soon(loss):
    X = np.random.default_rng(8).normal(size=(40, 2))
    nanoseconds = 1.7e18 + 8.64e13 * np.arange(40)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"), pytest.warns(SlowerTraining):
        model = StreamSVC(loss=loss).fit(np.c_[nanoseconds, X], X[:, 0] > 0)
    assert model.n_iter_ < 9
    with pytest.warns() as told:
        StreamSVC(multiclass="crammer_singer", max_passes=2).fit(np.c_[nanoseconds, X], np.arange(40) % 3)
    assert [each.category for each in told] == [SlowerTraining, ConvergenceWarning]  # the first before training
    assert told[0].filename == __file__
