"""Evaluation of kernel machines: the figures of numpy's decision values, also if features are renumbered."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import LARGE_W
from tests.contracts.problems import make_dataset, random_problem
from tests.machines import PAIRS, kernel, numpys_values, random_machine, vectors_of

ABOUT = {"loss": "hinge", "C": 0.5, "spec": {"class_weight": {"1": 3.0}}}


def half_norm(model) -> float:
    Z, w = vectors_of(model), np.atleast_2d(model.w)
    return float(np.einsum("cs,st,ct", w, kernel(Z, Z, model.vectors.gamma), w)) / 2


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("intercept", [0.0, 0.25])
def test_all_figures_are_those_of_numpy(tmp_path, base, intercept):
    X, y = random_problem(500, 40)
    model = random_machine(30, 40, (1.0, -1.0), base, about=ABOUT, bias=1.0, w_bias=intercept, sigmoid=PAIRS[:1])
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y, base)))
    decision = numpys_values(model, X)
    assert found["accuracy"] == np.mean((decision > 0) == (y > 0))
    assert found["auc"] == pytest.approx(roc_auc_score(y, decision), rel=1e-12)
    losses = 0.5 * np.where(y > 0, 3.0, 1.0) @ np.maximum(0.0, 1.0 - y * decision)
    assert found["objective"] == pytest.approx(half_norm(model) + intercept**2 / 2 + losses, rel=1e-12)
    assert found["unknown_features"] == 0 and "log_loss" in found


def test_several_classes(tmp_path):
    X, _ = random_problem(400, 40)
    y = np.random.default_rng(2).choice([5.0, -1.0, 2.0], 400)
    model = random_machine(30, 40, (5.0, -1.0, 2.0), about={"loss": "hinge", "C": 2.0})
    found = evaluate(model, Dataset(make_dataset(tmp_path / "data", X, y)))
    decision, labels = numpys_values(model, X), np.array(model.labels)
    assert found["accuracy"] == np.mean(labels[decision.argmax(axis=1)] == y)
    signs = np.where(y[:, None] == labels, 1.0, -1.0)
    losses = 2.0 * np.maximum(0.0, 1.0 - signs * decision).sum()
    assert found["objective"] == pytest.approx(half_norm(model) + losses, rel=1e-12)


@pytest.mark.parametrize("n_features", [LARGE_W + 2000, LARGE_W + 1001, LARGE_W // 2])
def test_wide_data_whose_features_are_numbered_anew(tmp_path, n_features):
    """Features that only the rows or only the vectors have count in the distance."""
    X, y = random_problem(400, 60)
    places = np.append(np.random.default_rng(2).permutation(LARGE_W + 1000)[:59], LARGE_W + 1000)
    wide = sparse.csr_matrix((X.data, places[X.indices], X.indptr), (400, LARGE_W + 1001)).sorted_indices()
    dataset = Dataset(make_dataset(tmp_path / "data", wide, y))
    assert dataset.manifest.renumbered
    # The first 20 rows are the vectors, each with another feature if there are enough features.
    own = sparse.csr_matrix(
        (np.full(20, 0.5, np.float32), np.full(20, n_features - 1), np.arange(21)), (20, n_features)
    )
    Z = wide[:20].copy()
    Z.resize(20, n_features)
    model = with_vectors(Z + own)
    found = evaluate(model, dataset)
    # Only the columns that a row or a vector has.
    used = np.union1d(np.unique(wide.indices), np.unique((Z + own).indices))
    shown = [matrix_of(M, used) for M in (wide, Z + own)]
    decision = kernel(*shown, model.vectors.gamma) @ model.w
    assert found["auc"] == pytest.approx(roc_auc_score(y, decision), rel=1e-12)
    losses = 0.5 * np.where(y > 0, 3.0, 1.0) @ np.maximum(0.0, 1.0 - y * decision)
    norm = model.w @ kernel(shown[1], shown[1], model.vectors.gamma) @ model.w
    assert found["objective"] == pytest.approx(norm / 2 + losses, rel=1e-10)
    assert found["unknown_features"] == np.count_nonzero(wide.indices >= n_features)


def with_vectors(Z):
    w = np.random.default_rng(3).standard_normal(Z.shape[0])
    model = random_machine(1, 1)
    indptr, indices = Z.indptr.astype(np.int64), (Z.indices + 1).astype(np.int32)
    vectors = replace(
        model.vectors, width=Z.shape[1] + 1, indptr=indptr, indices=indices, values=Z.data.astype(np.float32)
    )
    return replace(model, labels=(1.0, -1.0), w=w, vectors=vectors, about=ABOUT)


def matrix_of(M, used):
    """(n_rows, len(used)) float64, columns beyond those of M being 0."""
    M = M.copy()
    M.resize(M.shape[0], used.max() + 1)
    return M.tocsc()[:, used].toarray().astype(float)
