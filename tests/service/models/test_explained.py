"""Contributions of features to decision values, against shap's definition in slow and clear numpy."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from streamsvm import StreamSVC, load
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.heaviest import input_about
from streamsvm.service.models.predicting.applied import with_mean
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.rows import Shape, read_statistics
from streamsvm.storage.models.model_file import Model, read_model, write_model
from tests.features import planned
from tests.service.models.test_mapped import make, rows_of, some


def shap_of(w, mean, x) -> dict[int, float]:
    """shap.LinearExplainer with feature_perturbation="interventional": w_j (x_j - E x_j)."""
    return {j: w[j] * (x[j] - mean[j]) for j in range(len(x))}


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("most", [1, 3, 8])
def test_contributions_are_those_of_shap(base, n_classes, most):
    X, rng = some(40, 8, seed=2), np.random.default_rng(3)
    w = rng.normal(size=8) if n_classes == 2 else rng.normal(size=(3, 8))
    w_bias = 0.5 if n_classes == 2 else (0.5, -0.25, 0.0)
    mean = np.where(np.arange(8) < 6, rng.normal(size=8), 0.0)
    model = Model(w, tuple("abc"[:n_classes]), base, 2.0, w_bias, mean=mean)
    found = Predictor(model).explaining(most).predict(rows_of(X, base))
    values = found.decision_values
    why = found.explained
    assert why.against == "mean"
    for k, x in enumerate(X):
        class_ = 0 if n_classes == 2 else int(values[k].argmax())
        weights, intercept = np.atleast_2d(w)[class_], np.atleast_1d(model.intercept)[class_]
        expected = shap_of(weights, mean, x)
        largest = sorted((j for j in expected if expected[j]), key=lambda j: -abs(expected[j]))[:most]
        assert list(why.contributions[k]) == [str(j + base) for j in largest]
        np.testing.assert_allclose([*why.contributions[k].values()], [expected[j] for j in largest], rtol=1e-12)
        assert abs(why.base_values[k] - (weights @ mean + intercept)) < 1e-12
        if most == 8:
            assert (
                abs(why.base_values[k] + sum(why.contributions[k].values()) - np.atleast_2d(values.T)[class_, k]) < 1e-9
            )


@pytest.mark.parametrize("name", ["scale", "scale and bias", "idf", "unit"])
def test_maps_that_keep_features_are_explained_as_they_are_trained(name):
    """The mean is not known: m is a row without features, to which a map may give a constant."""
    model, X = make(name, 1)
    found = Predictor(model).explaining(20).predict(rows_of(X, 1))
    assert found.explained.against == "empty_row"
    empty = Predictor(model).predict(rows_of(np.zeros((1, 6)), 1)).decision_values[0]
    for base_value, parts, value, x in zip(*found.explained[:2], found.decision_values, X, strict=True):
        assert base_value == pytest.approx(empty, abs=1e-12)
        assert abs(base_value + sum(parts.values()) - value) < 1e-9
        assert {*parts} == {str(j + 1) for j in np.flatnonzero(x)}


@pytest.mark.parametrize("name", ["pairs", "fourier"])
def test_maps_that_mix_features_are_refused(name):
    with pytest.raises(ServiceError) as caught:
        Predictor(make(name, 0)[0]).explaining(3)
    assert caught.value.code == "no_contributions" and caught.value.hint


def test_a_model_gets_the_mean_of_what_it_was_trained_on(tmp_path):
    text = "1 1:2 3:4\n-1 1:-1 2:0.5\n1 3:1\n"
    ingest([text.encode()], tmp_path / "data", InputOptions("libsvm"))
    manifest, statistics = Dataset(tmp_path / "data").manifest, read_statistics(tmp_path / "data")
    X = np.array([[2, 0, 4], [-1, 0.5, 0], [0, 0, 1]])
    plain = with_mean(Model(np.ones(3), (1.0, -1.0), 1), statistics, manifest)
    np.testing.assert_allclose(plain.mean, X.mean(axis=0))
    assert plain.about["usual"] == pytest.approx(dict(zip("123", X.mean(axis=0), strict=True)))
    maps = planned(Shape(4, 1), "scale").fitted(statistics)
    scaled = with_mean(Model(np.ones(4), (1.0, -1.0), 1, maps=maps), statistics, manifest)
    np.testing.assert_allclose(scaled.mean[1:], (X / abs(X).max(axis=0)).mean(axis=0))
    # Rows that were added since are not those of training.
    later = with_mean(Model(np.ones(3), (1.0, -1.0), 1), statistics, replace(manifest, n_rows=2))
    assert later.mean is None and "usual" not in later.about


def test_usual_values_of_a_table(tmp_path):
    text = "age,town,y\n10,Ulm,1\n20,Bonn,-1\n60,Bonn,1\n"
    ingest([text.encode()], tmp_path / "data", InputOptions("csv", label_column="y", categorical="town"))
    manifest = Dataset(tmp_path / "data").manifest
    model = Model(np.ones(manifest.n_features), (1.0, -1.0), manifest.index_base, about=input_about(manifest))
    assert with_mean(model, read_statistics(tmp_path / "data"), manifest).about["usual"] == {
        "age": 30.0,
        "town": "Bonn",
    }


def test_the_mean_is_stored_with_the_model(tmp_path):
    model = Model(np.ones(3), (1.0, -1.0), 1, mean=np.array([0.5, -1.0, 1e-300]))
    write_model(tmp_path / "m", model)
    archive = b"".join(MODEL_FORMATS["npz"].write(model))
    for read in (read_model(tmp_path / "m"), MODEL_FORMATS["npz"].read(io.BytesIO(archive))):
        assert read.mean.tobytes() == model.mean.tobytes()
    with pytest.raises(ModelFormatError):
        b"".join(MODEL_FORMATS["npz"].write(replace(model, mean=np.ones(2))))


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    lines = [f"{'ab'[k % 2]}\t{('fine', 'dull')[k % 2]} film no{k % 60}" for k in range(90)]
    (folder / "rows").write_text("\n".join(lines) + "\n")
    assert main(["train", str(folder / "rows"), "--format", "text", "-o", str(folder / "m.npz")]) == 0
    return folder


def test_documents_are_explained_by_their_words(documents, capsys):
    """Their own words have names, also those that are not among the heaviest of the model."""
    texts = [f"a fine film no{k}" for k in range(60)]
    (documents / "new").write_text("\n".join(texts) + "\n")
    assert main(["predict", str(documents / "m.npz"), str(documents / "new"), "--explain", "90"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    why = load(documents / "m.npz").explain(texts, 90)
    assert why.against == "mean" and why.contributions == [each["contributions"] for each in shown]
    for k, each in enumerate(shown):
        assert {"fine", "dull", f"no{k}"} <= {*each["contributions"]}
        assert abs(each["base_value"] + sum(each["contributions"].values()) - each["decision_value"]) < 1e-9


def test_a_file_without_the_mean_says_so(documents, capsys):
    (documents / "rows.svm").write_text("1 1:2 2:3\n")
    path = documents / "a.model"
    path.write_bytes(b"".join(MODEL_FORMATS["liblinear"].write(Model(np.array([0.5, -2.0]), (1.0, -1.0), 1))))
    assert main(["predict", str(path), str(documents / "rows.svm"), "--explain", "1"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["contributions"] == {"2": -6.0} and "a row without features" in told.err


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_explain_against_the_mean_of_their_matrix(weighted):
    """Equal rows, which training joins, count as often as they are there."""
    X = np.repeat(some(40, 5).astype(np.float32), 2, axis=0)[:-1]
    y, weight = X[:, 0] > 0, np.arange(len(X)) % 3 + 1.0 if weighted else None
    model = StreamSVC(max_passes=5).fit(X, y, weight)
    mean = np.average(X.astype(float), axis=0, weights=weight)
    why = model.explain(X[:4], None)
    expected = [{str(j): part for j, part in shap_of(model.coef_[0], mean, x).items()} for x in X[:4].astype(float)]
    for found, wanted in zip(why.contributions, expected, strict=True):
        assert found == pytest.approx({name: part for name, part in wanted.items() if part}, abs=1e-12)
    totals = why.base_values + [sum(each.values()) for each in why.contributions]
    np.testing.assert_allclose(totals, model.decision_function(X[:4]), atol=1e-9)
