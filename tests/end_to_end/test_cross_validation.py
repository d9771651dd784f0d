"""Cross-validation in the stream of a job: its figures against scikit-learn's, on the same folds."""

import re
from itertools import pairwise

import httpx
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score
from sklearn.svm import LinearSVC

from streamsvm.storage.models.probability import fit_sigmoid
from streamsvm.trainer.problem.row_encoder import deal
from tests.contracts.problems import libsvm_text, random_problem, stored_rows
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN

VALUES, FOLDS, SEED = (0.003, 0.1, 3.0), 3, 5
N_FIRST = 8  # values of C that a search tries in any case, with 600 rows
SPEC = {"tolerance": None, "relative_gap": 1e-9, "max_passes": 100_000, "cache_bytes": 1 << 17, "seed": SEED}


def problem(n_classes):
    X, _ = random_problem(600, 80)
    rng = np.random.default_rng(n_classes)
    scores = X @ rng.normal(size=(X.shape[1], n_classes))
    return X, np.argmax(scores + rng.normal(0, 0.5, scores.shape), axis=1).astype(float)


@pytest.fixture(scope="module")
def datasets(service):
    """(X, y) by name, in the order of the rows' ids, of datasets that the service has."""
    arrays = {}
    for name, n_classes in (("two", 2), ("three", 3)):
        rows, _ = stored_rows(service.upload(name, libsvm_text(*problem(n_classes))))
        arrays[name] = sparse.csr_matrix((rows.values, rows.indices - 1, rows.indptr), (len(rows), 80)), rows.label
    return arrays


def folds(y):
    """The fold of each row; of two classes, the larger label is the first."""
    codes = y.astype(int) if y.max() > 1 else 1 - y.astype(int)
    return deal(codes, np.zeros(codes.max() + 1, int), FOLDS, SEED)


def out_of_fold(X, y, C, positive):
    """Decision values of scikit-learn's machines, each of a row that it was not trained on."""
    fold, values = folds(y), np.empty(len(y))
    sign = np.where(y == positive, 1, -1)
    for k in range(FOLDS):
        svm = LinearSVC(loss="hinge", C=C, fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6)
        svm.fit(X[fold != k], sign[fold != k])
        values[fold == k] = svm.decision_function(X[fold == k])
    return fold, values


def test_three_classes_have_probabilities_of_rows_held_out(service, datasets):
    X, y = datasets["three"]
    spec = {**SPEC, "dataset": "three", "C": [0.1, 3.0], "folds": FOLDS, "probability": "sigmoid", "keep": "all"}
    ended = service.train(**spec, scoring="neg_log_loss")
    assert [model["C"] for model in ended["result"]["models"]] == [0.1, 3.0]
    for model, cv in zip(ended["result"]["models"], ended["result"]["cv"], strict=True):
        columns = [out_of_fold(X, y, model["C"], label) for label in (0.0, 1.0, 2.0)]
        values, fold = np.stack([column for _, column in columns], axis=1), columns[0][0]
        accuracy = [accuracy_score(y[fold == k], values[fold == k].argmax(axis=1)) for k in range(FOLDS)]
        assert [each["accuracy"] for each in cv["folds"]] == pytest.approx(accuracy, abs=1e-9)
        file = httpx.get(f"{service.url}/v1/models/{model['model_id']}/file?format=npz", **PLAIN)
        expected = [fit_sigmoid(values[:, k], y == k) for k in range(3)]
        np.testing.assert_allclose(weights(file.content, "sigmoid"), expected, rtol=1e-3)
    answer = httpx.post(
        f"{service.url}/v1/models/{ended['model_id']}/predict", content=b"0 1:1 5:0.5\n",
        headers={"Content-Type": "text/libsvm"}, **PLAIN,
    )  # fmt: skip
    (row,) = answer.json()["predictions"]
    assert sum(row["probability"]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["two", "three"])
def test_validation_judges_the_rows_of_one_fold_and_trains_the_model_on_all(service, datasets, name):
    X, y = datasets[name]
    spec = {**SPEC, "dataset": name, "C": VALUES, "validation": 0.3}  # a third
    ended = service.train(**spec)
    held_out, classes = folds(y) == 0, (1.0, 0.0) if name == "two" else (0.0, 1.0, 2.0)
    for C, found in zip(VALUES, ended["result"]["cv"], strict=True):
        values = np.stack([out_of_fold(X, y, C, label)[1] for label in classes], axis=1)[held_out]
        accuracy = accuracy_score(y[held_out], np.array(classes)[values.argmax(axis=1)])
        assert [each["accuracy"] for each in found["folds"]] == [pytest.approx(accuracy, abs=1e-9)]
    best = max(ended["result"]["cv"], key=lambda each: (each["mean"]["accuracy"], -each["C"]))
    score = {"metric": "accuracy", "value": best["mean"]["accuracy"], "std": None, "folds": 1, "rows": "held_out"}
    model = httpx.get(f"{service.url}/v1/models/{ended['model_id']}", **PLAIN).json()
    assert ended["score"] == model["score"] == score
    assert {lane["fold"] for lane in ended["result"]["lanes"]} == {0, None}
    plain = service.wait_until_ended(service.submit(**SPEC, dataset=name, C=best["C"]))
    found, expected = weights(service.model(ended)), weights(service.model(plain))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (plain["score"]["rows"], plain["score"]["folds"]) == ("training", 0)
    address = f"{service.url}/v1/models/{plain['model_id']}/evaluate"
    evaluated = httpx.post(address, json={"dataset": name}, **PLAIN).json()
    assert plain["score"]["value"] == pytest.approx(evaluated["accuracy"], rel=1e-12)
    listed = httpx.get(f"{service.url}/", headers={"Accept": "text/html"}, **PLAIN).text
    page = httpx.get(f"{service.url}/jobs/{plain['id']}", headers={"Accept": "text/html"}, **PLAIN).text
    assert "training </span>" in listed and "on the rows it was trained on" in page


@pytest.mark.parametrize(("name", "how"), [("two", {"scoring": "roc_auc"}), ("three", {"validation": 0.25})])
def test_the_best_C_is_looked_for_until_the_metric_falls_or_rises_no_more(service, datasets, name, how):
    ended = service.train(dataset=name, C="auto", seed=SEED, cache_bytes=1 << 17, **how)
    result, metric = ended["result"], ended["score"]["metric"]
    Cs, found = zip(*((each["C"], each["mean"][metric]) for each in result["cv"]), strict=True)
    first = found.index(max(found))
    assert {later / C for C, later in pairwise(Cs)} == {2.0, 4.0, 8.0}
    assert {Cs[first - 1], Cs[first + 1]} <= {Cs[first] * factor for factor in (0.25, 0.5, 2.0)}  # or it was beside
    assert first + 3 < len(Cs) <= first + 9
    # Lanes over all rows are trained at the best C alone, to the job's targets.
    assert {lane["C"] for lane in result["lanes"] if lane["fold"] is None} == {Cs[first]}
    assert result["certificate"]["relative_duality_gap"] <= 1e-4 and result["converged"]
    assert len(result["cv"][0]["folds"]) == (1 if "validation" in how else 5)
    assert result["models"] == [{"C": Cs[first], "model_id": ended["model_id"]}] and ended["spec"]["C"] == "auto"
    again = service.wait_until_ended(service.submit(dataset=name, C=Cs[first], seed=SEED, cache_bytes=1 << 17))
    np.testing.assert_allclose(weights(service.model(ended)), weights(service.model(again)), atol=0.05)
    page = httpx.get(f"{service.url}/jobs/{ended['id']}", headers={"Accept": "text/html"}, **PLAIN)
    assert page.text.count('class="badge succeeded">selected') == 1


def test_without_refit_there_is_no_model(service, datasets):
    ended = service.wait_until_ended(service.submit(dataset="two", folds=2, refit=False, cache_bytes=1 << 17))
    assert (ended["state"], ended["model_id"], ended["result"]["models"]) == ("succeeded", None, [])
    assert len(ended["result"]["cv"][0]["folds"]) == 2


@pytest.mark.parametrize("Cs", ["auto", "0.01,1,100"])
def test_the_command_tells_the_best_C_while_it_looks_for_it(run_here, tmp_path, Cs):
    X, y = problem(2)
    (tmp_path / "rows").write_bytes(libsvm_text(100.0 * X, y))  # so that values of C run in turn
    options = ("-C", Cs, "--validation", "0.25", "--cache", "128KiB", "-o", tmp_path / "m")
    said = run_here("train", tmp_path / "rows", *options).stderr.splitlines()
    told = [line.removeprefix("best so far ") for line in said if line.startswith("best so far C = ")]
    found = dict(re.findall(r"^(C = \S+): accuracy ([\d.]+)", "\n".join(said), re.MULTILINE))
    values = [float(found[C]) for C, value in (line.split(": ") for line in told) if found[C] == value]
    assert len(values) == len(told) > 0 and values == sorted(values) and values[-1] == max(map(float, found.values()))


def test_the_command_says_on_which_rows_a_model_without_folds_was_judged(run_here, tmp_path):
    (tmp_path / "rows").write_bytes(libsvm_text(*problem(2)))
    said = run_here("train", tmp_path / "rows", "--cache", "128KiB", "-o", tmp_path / "m").stderr.splitlines()[-1]
    assert said.startswith("training accuracy 0.") and "on the rows it was trained on; always to say the most" in said


@pytest.mark.parametrize(
    ("rows", "code", "multiclass"),
    [
        ([("a", 1), ("b", 1)] * 20, "empty_fold", "one_vs_rest"),
        ([("a", 1)] * 20 + [("b", 2)] * 20, "fold_without_class", "one_vs_rest"),
        ([("a", 1)] * 30 + [("b", k) for k in range(2, 20)] * 2, "fold_without_class", "one_vs_rest"),
        ([(k, 1 if k == 1 else 2 + n) for k in (1, 2, 3) for n in range(20)], "fold_without_class", "crammer_singer"),
    ],
)
def test_groups_that_make_no_folds(service, rows, code, multiclass):
    """One group alone, a class in one group each, a class in one group, and so where classes are one problem."""
    name = f"groups{len(rows)}-{rows[1][1]}-{code}".replace("_", "-")
    text = "y,x,person\n" + "".join(f"{label},{k % 5},{group}\n" for k, (label, group) in enumerate(rows))
    query = "label_column=y&group_column=person&format=csv"
    assert httpx.put(f"{service.url}/v1/datasets/{name}?{query}", content=text.encode(), **PLAIN).status_code == 201
    ended = service.wait_until_ended(service.submit(dataset=name, folds=2, multiclass=multiclass))
    assert (ended["state"], ended["failure"]["code"]) == ("failed", code)
    assert ended["failure"]["hint"]
