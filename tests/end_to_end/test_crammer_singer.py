"""Jobs whose classes are one problem, against LIBLINEAR's -s 4: in the service, and on the command line."""

import httpx
import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.models.probability import fit_sigmoid
from streamsvm.trainer.problem.losses import crammer_singer
from streamsvm.trainer.problem.row_encoder import deal
from tests.contracts.problems import libsvm_text, stored_rows
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN
from tests.end_to_end.test_lanes import CLASSES, EXACT, model_file, rows
from tests.reference.liblinear import liblinear_predict, train_crammer_singer

__all__ = ["rows"]

JOINT = {"multiclass": "crammer_singer"}


def objective(w, X, y, C: float, labels=CLASSES) -> float:
    """Of w (n_classes, n_features)."""
    own = np.searchsorted(labels, y)
    return np.vdot(w, w) / 2 + crammer_singer.losses(own, np.full(len(y), C), X @ w.T)


def best(X, y, C: float, labels=CLASSES, **more):
    """LIBLINEAR's w, (n_classes, n_features)."""
    return train_crammer_singer(X, np.searchsorted(labels, y), C, eps=1e-6, **more).T


@pytest.fixture(scope="module")
def many(service, rows):
    service.upload("many", libsvm_text(*rows))
    return service


def test_at_every_C_it_is_liblinears(many, rows, tmp_path):
    X, y = rows
    ended = many.train(dataset="many", C=[1.0, 0.01, 0.1], **JOINT, **EXACT)
    assert [(lane["class"], lane["C"]) for lane in ended["result"]["lanes"]] == [(None, C) for C in (0.01, 0.1, 1.0)]
    for model in ended["result"]["models"]:
        w = weights(model_file(many, model["model_id"], "npz"))
        theirs = objective(best(X, y, model["C"]), X, y, model["C"])
        assert objective(w, X, y, model["C"]) == pytest.approx(theirs, rel=1e-6)
    path = tmp_path / "model"
    path.write_bytes(model_file(many, ended["model_id"], "liblinear"))
    assert path.read_bytes().startswith(b"solver_type MCSVM_CS\nnr_class 4\n")
    labels, _ = liblinear_predict(path, X)
    answer = httpx.post(
        f"{many.url}/v1/models/{ended['model_id']}/predict", content=libsvm_text(X, y),
        headers={"Content-Type": "text/libsvm"}, **PLAIN,
    )  # fmt: skip
    assert [each["label"] for each in answer.json()["predictions"]] == labels.tolist()
    found = httpx.post(f"{many.url}/v1/models/{ended['model_id']}/evaluate", json={"dataset": "many"}, **PLAIN).json()
    certified = ended["result"]["lanes"][-1]["primal_objective"]
    assert found["objective"] == pytest.approx(certified, rel=1e-9)


def test_two_labels(many, problem, tmp_path):
    X, y = problem
    X, y = X[:600], y[:600]
    many.upload("pair", libsvm_text(X, y))
    ended = many.train(dataset="pair", C=0.5, **JOINT, **EXACT)
    w = weights(model_file(many, ended["model_id"], "npz"))
    both = np.stack([-w.ravel(), w.ravel()])  # the larger label is the first of the model
    theirs = objective(best(X, y, 0.5, (-1.0, 1.0)), X, y, 0.5, (-1.0, 1.0))
    assert objective(both, X, y, 0.5, (-1.0, 1.0)) == pytest.approx(theirs, rel=1e-6)
    found = httpx.post(f"{many.url}/v1/models/{ended['model_id']}/evaluate", json={"dataset": "pair"}, **PLAIN).json()
    assert found["objective"] == pytest.approx(theirs, rel=1e-6)
    path = tmp_path / "model"
    path.write_bytes(model_file(many, ended["model_id"], "liblinear"))
    labels, _ = liblinear_predict(path, X)
    assert np.array_equal(labels, np.where(X @ w.ravel() > 0, 1.0, -1.0)) and found["accuracy"] == np.mean(labels == y)


def test_folds_are_judged_by_rows_held_out(many, rows):
    stored, _ = stored_rows(many.upload("folded", libsvm_text(*rows)))
    X, y = sparse.csr_matrix((stored.values, stored.indices - 1, stored.indptr), rows[0].shape), stored.label
    spec = {**EXACT, **JOINT, "dataset": "folded", "folds": 3, "seed": 5, "C": [0.03, 1.0]}
    ended = many.train(**spec, probability="sigmoid", keep="all")
    fold = deal(np.searchsorted(CLASSES, y), np.zeros(len(CLASSES), int), 3, 5)
    for model, cv in zip(ended["result"]["models"], ended["result"]["cv"], strict=True):
        values = np.empty((len(y), len(CLASSES)))
        for k in range(3):
            values[fold == k] = X[fold == k] @ best(X[fold != k], y[fold != k], model["C"]).T
        right = np.array(CLASSES)[values.argmax(axis=1)] == y
        first, second = np.sort(values, axis=1)[:, :-3:-1].T
        is_tie = first - second < 1e-3  # of these rows both solutions decide otherwise
        for k, each in enumerate(cv["folds"]):
            assert abs(each["accuracy"] - right[fold == k].mean()) <= is_tie[fold == k].mean() + 1e-9
        expected = [fit_sigmoid(values[:, place], y == label) for place, label in enumerate(CLASSES)]
        sigmoid = weights(model_file(many, model["model_id"], "npz"), "sigmoid")
        np.testing.assert_allclose(sigmoid, expected, rtol=5e-3)
    assert [lane["fold"] for lane in ended["result"]["lanes"]] == [0, 0, 1, 1, 2, 2, None, None]


def test_a_job_begins_with_what_another_found_and_goes_on(many):
    first = many.wait_until_ended(many.submit(dataset="many", C=0.3, **JOINT, **EXACT))
    then = many.train(dataset="many", C=0.4, warm_start=first["id"], **JOINT, **EXACT)
    assert then["result"]["converged"] and then["result"]["certificate"]["w_error"] <= 1e-9
    fields = {"dataset": "many", "bias": None, "warm_start": first["id"]}
    answer = httpx.post(f"{many.url}/v1/jobs", json=fields, **PLAIN)
    assert answer.json()["code"] == "warm_start" and "multiclass" in answer.json()["detail"]
