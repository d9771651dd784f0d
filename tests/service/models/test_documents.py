"""Models of documents: they take documents, and name their heaviest words."""

import threading

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from streamsvm import load
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.models.heaviest import MOST_CLASSES, MOST_SHOWN, with_heaviest
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.predicting.raw_rows import json_documents
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Shape
from streamsvm.storage.features.weighing import Bias, Unit
from streamsvm.storage.models.model_file import Model
from tests.refusals import refused

TEXTS = ["some good words", "", "bad, bad words and more", "Ünïcode ΑΣ"]
N_FEATURES = 1 << 10
INPUT = {
    "format": "text", "n_features": N_FEATURES, "analyzer": "word", "ngram_range": [1, 2], "alternate_sign": True,
    "lowercase": True,
}  # fmt: skip


def model_of(n_classes: int = 2, **changes) -> Model:
    w = np.random.default_rng(0).standard_normal((n_classes, N_FEATURES))
    labels = tuple(f"class{k}" for k in range(n_classes))
    about = {"input": {**INPUT, **changes}, "loss": "hinge", "C": 1.0}
    return Model(w if n_classes > 2 else w[0], labels, 0, 1.0, (0.5,) * n_classes if n_classes > 2 else 0.5, about)


def values_of(model: Model, texts: list[str]) -> np.ndarray:
    X = HashingVectorizer(norm=None, n_features=N_FEATURES, ngram_range=(1, 2)).transform(texts)
    return X @ model.w.T + np.array(model.intercept)


def test_predicting_documents_leaves_no_thread():
    predictor, before = Predictor(model_of()), threading.active_count()
    for texts in (TEXTS, ["a long document " * (1 << 16)] * 3):  # of one piece, and of several
        assert sum(len(each.labels) for each in predictor.predict_documents(texts)) == len(texts)
        assert threading.active_count() == before


@pytest.mark.parametrize("n_classes", [2, 3])
def test_documents_are_predicted(n_classes):
    model = model_of(n_classes)
    predictor, wanted = Predictor(model), values_of(model, TEXTS)
    data = "\n".join(TEXTS).encode()
    ways = [
        predictor.predict_documents(TEXTS),
        predictor.predict_text([data[:5], data[5:]], options=InputOptions("text")),
        predictor.predict_text(
            ["".join(f"9\t{t}\n" for t in TEXTS).encode()], options=InputOptions("text", label_column="1")
        ),
        predictor.predict_text(
            [b"text,id\n", "".join(f'"{text}",7\n' for text in TEXTS).encode()], options=InputOptions("csv")
        ),
        predictor.predict_text(
            ["".join(f"{text}\tx\n" for text in TEXTS).encode()], options=InputOptions("tsv", text_column="1")
        ),
    ]
    for way in ways:
        (found,) = way
        assert found.decision_values == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert found.unknown_features == 0
    assert sum(len(each.labels) for each in predictor.predict_documents([])) == 0


def test_labels_beside_documents_are_expected():
    (found,) = Predictor(model_of()).predict_text(
        [b"class1\tsome\nother\tmore\nclass1\tand more\n"], options=InputOptions("text")
    )
    assert (found.expected == "class1").tolist() == [True, False, True]


def test_rows_that_are_hashed_already():
    model = model_of()
    (found,) = Predictor(model).predict_text([b"0 0:1 5:2\n"], options=InputOptions("libsvm"))
    assert found.decision_values == pytest.approx(model.w[0] + 2 * model.w[5] + 0.5)


def test_many_documents_come_in_batches():
    texts = ["word " * 1000 + str(k) for k in range(2000)]
    found = list(Predictor(model_of()).predict_documents(texts))
    assert len(found) > 1 and sum(len(each.labels) for each in found) == 2000


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(InputError) as caught:
        list(Predictor(model_of()).predict_documents(["good", "\ud800"]))
    assert (caught.value.code, caught.value.line) == ("not_text", 2)


def test_a_model_of_other_rows_takes_no_documents():
    predictor = Predictor(Model(np.ones(3), (1.0, -1.0), 1))
    for ask in (
        lambda: list(predictor.predict_documents(["a text"])),
        lambda: list(predictor.predict_text([b"x"], options=InputOptions("text"))),
    ):
        with refused(InputError, "no_documents"):
            ask()


@pytest.mark.parametrize(
    "fields", [{"documents": "a"}, {"documents": [1]}, {"documents": []}, {"documents": ["a"], "rows": []}]
)
def test_bad_json(fields):
    with pytest.raises(ServiceError):
        json_documents(fields)


def dataset_of(tmp_path, texts: list[str], **options) -> Dataset:
    data = "".join(f"class{k % 2}\t{text}\n" for k, text in enumerate(texts)).encode()
    ingest([data], tmp_path / "data", InputOptions("text", n_features=N_FEATURES, ngram_range="1,2", **options))
    return Dataset(tmp_path / "data")


@pytest.mark.parametrize("alternate_sign", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_heaviest_words(tmp_path, alternate_sign, n_classes):
    """What each word adds to the decision value, the largest first."""
    texts = [f"word{k} next{k}" for k in range(200)]
    dataset = dataset_of(tmp_path, texts, alternate_sign="yes" if alternate_sign else "no")
    model = model_of(n_classes, alternate_sign=alternate_sign)
    found = with_heaviest(model, dataset.directory).about["heaviest"]
    assert [each["label"] for each in found] == list(model.labels if n_classes > 2 else model.labels[:1])
    hashing = HashingVectorizer(
        norm=None, n_features=N_FEATURES, alternate_sign=alternate_sign, analyzer=lambda text: [text]
    )
    for each, w in zip(found, np.atleast_2d(model.w), strict=True):
        for sign in ("positive", "negative"):
            words = each[sign]
            weights = [word["weight"] for word in words]
            assert weights == sorted(weights, key=abs, reverse=True)
            for word in words:
                row = hashing.transform([word["word"]])
                assert word["feature"] == row.indices[0]
                assert word["weight"] == w[row.indices[0]] * row.data[0] and (word["weight"] > 0) == (
                    sign == "positive"
                )
        known = np.unique(hashing.transform([w for t in texts for w in (*t.split(), t)]).indices)
        if not alternate_sign:
            assert [word["weight"] for word in each["positive"]] == np.sort(w[known])[::-1][:MOST_SHOWN].tolist()


def test_features_and_columns_weigh_as_words_do(tmp_path):
    def heaviest(w, labels, base, **about):
        found = with_heaviest(Model(np.array(w), labels, base, about=about), tmp_path).about["heaviest"]
        return [
            [[each["word"], each["weight"]] for each in entry[sign]]
            for entry in found
            for sign in ("positive", "negative")
        ]

    assert heaviest([0.5, -2.0, 1.0], (1.0, -1.0), 1) == [[["3", 1.0], ["1", 0.5]], [["2", -2.0]]]
    columns = {
        "columns": ["age", "town"],
        "categorical": ["town"],
        "missing": "zero",
        "dictionary": {"town": {"Ulm": 0}},
    }
    assert heaviest([3.0, -1.0], (), 0, input=columns) == [[["age", 3.0]], [["town=Ulm", -1.0]]]
    several = heaviest([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], ("a", "b", "c"), 0, input=columns)
    assert several == [[["age", 1.0]], [], [["town=Ulm", 2.0]], [], [], []]


def test_features_of_maps_keep_their_numbers(tmp_path):
    """Weights of a model with maps begin with that of feature 0, and end with that of a constant, if maps make one."""
    maps = FeatureMaps.planned(Shape(4, 1), [("unit", Unit()), ("bias", Bias())])
    (entry,) = with_heaviest(Model(np.array([9.0, 1.0, -2.0, 3.0, 9.0]), (), 1, maps=maps)).about["heaviest"]
    assert [[each["word"] for each in entry[sign]] for sign in ("positive", "negative")] == [["3", "1"], ["2"]]


def test_documents_whose_words_are_gone_have_numbers_of_features(tmp_path):
    dataset = dataset_of(tmp_path, TEXTS)
    (dataset.directory / "words").unlink()
    (entry,) = with_heaviest(model_of(), dataset.directory).about["heaviest"]
    assert entry["positive"][0]["word"] == str(np.argmax(model_of().w)) == str(entry["positive"][0]["feature"])


def test_regression_and_many_classes(tmp_path):
    dataset = dataset_of(tmp_path, TEXTS)
    model = Model(np.ones(N_FEATURES), (), 0, about={"input": INPUT})
    (only,) = with_heaviest(model, dataset.directory).about["heaviest"]
    assert only["label"] is None and len(only["positive"]) + len(only["negative"]) == len(dataset_words(dataset))
    assert len(with_heaviest(model_of(150), dataset.directory).about["heaviest"]) == MOST_CLASSES


def dataset_words(dataset: Dataset) -> list[str]:
    rows = HashingVectorizer(norm=None, n_features=N_FEATURES, ngram_range=(1, 2)).transform(TEXTS)
    return np.unique(rows.indices).tolist()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"analyzer": "char"}, "analyzer is word, the model's is char"),
        ({"ngram_range": [1, 1]}, "ngram_range is 1,2, the model's is 1,1"),
        ({"lowercase": False}, "lowercase is yes, the model's is no"),
        ({"n_features": 1 << 20}, "n_features is 1024, the model's is 1048576"),
        ({"format": "csv"}, "format is text, the model's is csv"),
    ],
)
def test_a_dataset_of_documents_read_in_with_other_options(tmp_path, changes, told):
    dataset = dataset_of(tmp_path, TEXTS)
    assert evaluate(model_of(), dataset)["rows"] == 4
    assert evaluate(model_of(text_column="text"), dataset)["rows"] == 4
    with pytest.raises(ServiceError) as caught:
        evaluate(model_of(**changes), dataset)
    assert caught.value.code == "input_mismatch" and told in caught.value.message


@pytest.mark.parametrize("features", ["fourier", "pairs", "unit"])
def test_words_have_no_weights_where_maps_make_other_features_of_them(tmp_path, features):
    (tmp_path / "rows").write_text("".join(f"{(-1) ** k}\tword{k % 7} next{k % 5}\n" for k in range(40)))
    asked = f"--format text --n-features 1000 --features {features} --max-passes 2 -o".split()
    assert main(["train", str(tmp_path / "rows"), *asked, str(tmp_path / "m.npz")]) == 0
    assert ("heaviest" in load(tmp_path / "m.npz").model_.about) == (features == "unit")
