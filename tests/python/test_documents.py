"""Estimators on files of documents, and models that take documents."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.feature_extraction.text import HashingVectorizer

import streamsvm

TEXTS = ["a fine film", "a dull film", "fine words", "dull words", ""]
LABELS = ["good", "bad", "good", "bad", "bad"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in zip(LABELS * 20, TEXTS * 20, strict=True)))
    return streamsvm.StreamSVC(input_options={"format": "text", "n_features": 4096}).fit(path)


def test_a_model_of_documents_takes_documents(fitted, tmp_path):
    rows = HashingVectorizer(norm=None, n_features=4096).transform(TEXTS)
    for name in ("own", "npz"):
        model = fitted
        if name != "own":
            fitted.save(tmp_path / f"model.{name}")
            model = streamsvm.load(tmp_path / f"model.{name}")
        for given in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object)):
            assert model.predict(given).tolist() == LABELS
        assert model.decision_function(TEXTS) == pytest.approx(model.decision_function(rows), rel=1e-12)
        assert model.score(TEXTS, LABELS) == 1.0
        (heaviest,) = model.model_.about["heaviest"]
        assert {heaviest["label"]: heaviest["positive"][0]["word"]}[heaviest["label"]] == {
            "good": "fine",
            "bad": "dull",
        }[heaviest["label"]]


def test_weights_that_were_changed_count(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    model = streamsvm.load(tmp_path / "model.npz")
    model.coef_ = model.coef_ * 2
    wanted = 2 * fitted.decision_function(TEXTS) - fitted.intercept_
    assert model.decision_function(TEXTS) == pytest.approx(wanted)


def test_other_models_take_no_documents():
    model = streamsvm.StreamSVC().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(streamsvm.InvalidInput, match="does not say how documents"):
        model.predict(["a text"])


def test_names_of_files_in_a_list_are_told_from_documents(fitted, tmp_path):
    (tmp_path / "texts.txt").write_text("a fine film\n")
    with pytest.warns(streamsvm.InputWarning, match="reads one file, predict_path reads several"):
        fitted.predict([str(tmp_path / "texts.txt")])
    model = streamsvm.StreamSVC().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(streamsvm.InvalidInput, match="list of names of files") as caught:
        model.predict([str(tmp_path / "texts.txt")])
    assert f"predict('{tmp_path}/texts.txt') reads one file" in caught.value.hint
