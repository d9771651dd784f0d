"""StreamSVC with a Gaussian kernel, against scikit-learn's SVC."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from streamsvm import InvalidInput, StreamSVC, load

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW = {"kernel": "rbf", "budget": 60, "max_passes": 15}


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    return X, (X**2).sum(axis=1)


@pytest.fixture(scope="module")
def fitted(rows):
    """One of each kind, by name, with its y."""
    X, r = rows
    ys = {"two": np.where(r > 3.5, 1, -1), "texts": np.where(r > 3.5, "far", "near"), "three": np.digitize(r, [2, 5])}
    return {
        name: (StreamSVC(C=10.0, **FEW, probability="sigmoid" if name != "two" else None).fit(X, y), y)
        for name, y in ys.items()
    }


KINDS = pytest.mark.parametrize("kind", ["two", "texts", "three"])


@KINDS
def test_it_is_about_as_right_as_scikit_learns(fitted, rows, kind):
    (model, y), X = fitted[kind], rows[0]
    assert model.score(X, y) > SVC(C=10.0).fit(X, y).score(X, y) - 0.03 > 0.9


@KINDS
def test_attributes_are_the_expansion(fitted, rows, kind):
    (model, y), X = fitted[kind], rows[0]
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.gamma_ == pytest.approx(1 / (4 * X.astype(float).var()), rel=1e-5)
    assert sparse.issparse(model.support_vectors_) and model.support_vectors_.shape == (model.n_support_, 4)
    n_machines = 3 if kind == "three" else 1
    assert model.dual_coef_.shape == (n_machines, model.n_support_) and model.n_support_ <= 60 * n_machines
    K = rbf_kernel(X.astype(float), model.support_vectors_.toarray().astype(float), gamma=model.gamma_)
    values = (K @ model.dual_coef_.T + model.intercept_).squeeze()
    np.testing.assert_allclose(model.decision_function(X), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(sparse.csr_matrix(X)), values, rtol=1e-12, atol=1e-12)
    found = values.argmax(axis=1) if kind == "three" else (values > 0).astype(int)
    assert np.array_equal(model.predict(X), model.classes_[found])


def test_what_belongs_to_the_other_kernel_is_not_there(fitted, rows):
    model = fitted["two"][0]
    with pytest.raises(AttributeError, match="coef_ is only available when using a linear kernel"):
        _ = model.coef_
    assert not hasattr(StreamSVC(**FEW), "coef_")
    again = clone(model).fit(*(part[:100] for part in (rows[0], fitted["two"][1])))
    again.set_params(kernel="linear").fit(rows[0], fitted["two"][1])
    assert again.coef_.shape == (1, 4) and again.model_.vectors is None
    for name in ("support_vectors_", "dual_coef_", "n_support_", "gamma_"):
        assert not hasattr(again, name)
    again.set_params(kernel="rbf").fit(rows[0], fitted["two"][1])
    assert not hasattr(again, "coef_") and again.n_support_ > 0


def test_the_certificate_is_the_objective_alone(fitted, rows):
    (model, y), X = fitted["two"], rows[0]
    Z = model.support_vectors_.toarray().astype(float)
    half_norm = model.dual_coef_[0] @ rbf_kernel(Z, gamma=model.gamma_) @ model.dual_coef_[0] / 2
    objective = half_norm + 10.0 * np.maximum(0.0, 1.0 - y * model.decision_function(X)).sum()
    assert model.certificate_.primal_objective == pytest.approx(objective, rel=1e-4)
    others = model.certificate_._replace(primal_objective=np.nan)
    assert all(map(np.isnan, others)) and model.n_iter_ == len(model.history_)


@KINDS
def test_copies_predict_the_same(fitted, rows, kind, tmp_path):
    (model, _), X = fitted[kind], rows[0]
    copies = [pickle.loads(pickle.dumps(model))]
    for suffix in ("npz", "onnx", "model"):
        path = tmp_path / f"model.{suffix}"
        if suffix == "model" and kind != "two":
            with pytest.raises(InvalidInput, match="npz"):
                model.save(path)
            continue
        model.save(path)
        copies.append(load(path))
        assert copies[-1].kernel == "rbf" and isinstance(copies[-1], StreamSVC)
    for copy in copies:
        np.testing.assert_allclose(copy.decision_function(X), model.decision_function(X), rtol=1e-12, atol=1e-12)
        assert np.array_equal(copy.predict(X), model.predict(X))
        if kind != "two":
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_coefficients_that_were_changed_count(fitted, rows, tmp_path):
    model, X = pickle.loads(pickle.dumps(fitted["two"][0])), rows[0]
    values = model.decision_function(X)
    model.dual_coef_ = -model.dual_coef_
    assert np.array_equal(model.decision_function(X), -values)
    model.save(tmp_path / "other.npz")
    assert np.array_equal(load(tmp_path / "other.npz").decision_function(X), -values)


def test_partial_fit_trains_on_all_rows_so_far(rows):
    X, r = rows
    y = np.where(r > 3.5, "far", "near")
    model = StreamSVC(C=10.0, **FEW)
    model.partial_fit(X[:200], y[:200], classes=["far", "middle", "near"]).partial_fit(X[200:], y[200:])
    assert model.classes_.tolist() == ["far", "middle", "near"] and model.score(X, y) > 0.93
    assert not (model.predict(X) == "middle").any()


def test_without_a_kernel_gamma_and_budget_mean_nothing(rows):
    X, r = rows
    y = r > 3.5
    plain = StreamSVC(max_passes=3).fit(X, y)
    other = StreamSVC(max_passes=3, gamma=7.0, budget=3).fit(X, y)
    assert np.array_equal(plain.coef_, other.coef_)
