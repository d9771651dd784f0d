"""A row that is given twice is a row of weight 2, in whichever order rows come."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from streamsvm import StreamSVC, StreamSVR
from streamsvm.rows import WeighedRows, are_few, joined

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def problem():
    """X (60, 5), y of three classes, whole weights, 0 among them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    return X, np.digitize(X[:, 0] + rng.standard_normal(60), [-0.5, 0.5]), rng.integers(0, 4, 60)


def repeated(X, y, weight):
    """Repeat each row as often as its weight says, in another order."""
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    return X[order], y[order]


WAYS = {
    "hinge": StreamSVC(),
    "logistic": StreamSVC(loss="logistic", C=10.0),
    "joint": StreamSVC(multiclass="crammer_singer"),
    "balanced": StreamSVC(class_weight="balanced"),
    "kernel": StreamSVC(kernel="rbf", max_passes=10),
    "few vectors": StreamSVC(kernel="rbf", budget=10, max_passes=3),
    "numbers": StreamSVR(),
    "dcd": StreamSVR(loss="squared_epsilon_insensitive", solver="dcd"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_the_same_to_the_byte(problem, way):
    X, y, weight = problem
    values = []
    for rows in ((X, y, weight), repeated(X, y, weight), (sparse.csr_matrix(X), y, weight.astype(float))):
        model = WAYS[way].fit(*rows)
        values.append(getattr(model, "decision_function", model.predict)(X))
    assert np.array_equal(values[0], values[1]) and np.array_equal(values[0], values[2])


@pytest.mark.parametrize(
    "model",
    [
        StreamSVC(C=[0.1, 1.0], cv=2),
        StreamSVC(probability="sigmoid", cv=2),
        StreamSVC(pace="fixed"),
        StreamSVC(features=["scale"]),
        StreamSVC(solver="pegasos", max_passes=3),
    ],
    ids=repr,
)
def test_rows_stay_as_they_are_where_each_counts(problem, model, monkeypatch):
    X, y, weight = problem
    monkeypatch.setattr("streamsvm.rows.joined", None)
    model.fit(*repeated(X, y, weight))
    with pytest.raises(TypeError):
        StreamSVC().fit(X, y)
    StreamSVC().partial_fit(X, y, np.unique(y))


@st.composite
def rows(draw):
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    X, y = rng.choice([-1.5, -0.0, 0.0, 2.0], (n, d)), rng.choice([-0.0, 0.0, 1.0], n)
    weight = rng.choice([0.0, 0.1, 0.2, 1.0], n) if draw(st.booleans()) else None
    return WeighedRows(sparse.csr_matrix(X) if draw(st.booleans()) else X, y, weight)


def weights_of(found):
    """The weight of each row that is different from all others."""
    weights = Counter()
    X = found.X.toarray() if sparse.issparse(found.X) else found.X
    for x, y, weight in zip(X, found.y, np.ones(len(X)) if found.weight is None else found.weight, strict=True):
        if weight > 0.0:
            weights[(*(x + 0.0).tolist(), y + 0.0)] += weight
    return weights


@given(rows(), st.integers(0, 1 << 32))
@settings(max_examples=100)
def test_joined_rows_have_the_weights_of_all(given_rows, seed):
    found = joined(given_rows, keeps_labels=False)
    assert weights_of(found) == pytest.approx(weights_of(given_rows))
    if given_rows.weight is None or given_rows.weight.any():
        assert found.X.shape[0] == len(weights_of(found))
        order = np.random.default_rng(seed).permutation(len(given_rows.y))
        other = joined(WeighedRows(*(None if each is None else each[order] for each in given_rows)), False)
        assert (found.X != other.X).nnz == 0 and np.array_equal(found.y, other.y)
        assert (found.weight is None) == (other.weight is None) and (
            found.weight is None or np.array_equal(found.weight, other.weight)
        )


def test_rows_whose_hashes_are_equal_by_chance_are_told_apart(monkeypatch):
    monkeypatch.setattr("streamsvm.rows._hashes", lambda X, _y: np.zeros(X.shape[0], np.uint64))
    found = joined(WeighedRows(np.array([[1.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0]), None), True)
    assert found.X.shape == (3, 1) and found.weight is None


@pytest.mark.parametrize("weight", [[1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
def test_rows_that_training_refuses_or_whose_label_would_be_lost_stay(weight):
    given_rows = WeighedRows(np.ones((3, 1)), np.array([0.0, 1.0, 1.0]), np.array(weight))
    assert joined(given_rows, keeps_labels=True) is given_rows


def test_values_beyond_float32_stay():
    given_rows = WeighedRows(np.array([[1e300], [1.0]]), np.array([0.0, 1.0]), None)
    assert joined(given_rows, keeps_labels=True) is given_rows


def test_many_rows_are_left_alone():
    assert are_few(np.zeros((1000, 1000))) and not are_few(np.zeros((1100, 1000)))
    assert not are_few(sparse.csr_matrix((1 << 17, 2)))
