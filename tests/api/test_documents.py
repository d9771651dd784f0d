"""Documents over HTTP: read in, predicted by every route, evaluated, and shown with their heaviest words."""

import json

import numpy as np
import pytest

from streamsvm.service.models.heaviest import with_heaviest
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service

TEXTS = ["some good words", "", "bad, bad words <b>"]
DATA = "".join(f"{'ab'[k % 2]}\t{text}\n" for k, text in enumerate(TEXTS)).encode()
OPTIONS = "format=text&n_features=1024&ngram_range=1,2"


class Documents(Service):
    """With the dataset `texts` and a model of it."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        made = self.request("PUT", f"/v1/datasets/texts?{OPTIONS}", content=DATA)
        assert made.status_code == 201, made.text
        self.view = made.json()
        dataset_id = self.store.dataset("texts")["id"]
        w = np.random.default_rng(0).standard_normal(1024)
        about = {"input": self.view["input"], "loss": "hinge", "C": 1.0}
        self.own = with_heaviest(Model(w, ("a", "b"), 0, about=about), self.settings.datasets / dataset_id)
        self.model = self.add_model(dataset_id, self.own)
        self.other = self.add_model(dataset_id, Model(w, ("a", "b"), 0))


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    return Documents(tmp_path_factory.mktemp("service"))


def predicted(documents, content, kind, query="", **headers):
    url = f"/v1/models/{documents.model}/predict{query}"
    return documents.request("POST", url, content=content, headers={"Content-Type": kind, **headers})


def test_a_dataset_says_how_rows_are_made(documents):
    assert documents.view["input"] == {
        "format": "text", "n_features": 1024, "analyzer": "word", "ngram_range": [1, 2], "alternate_sign": True,
        "lowercase": True,
    }  # fmt: skip
    assert (documents.view["features"], documents.view["rows"], documents.view["empty_rows"]) == (1024, 3, 1)


@pytest.mark.parametrize(
    ("content", "kind", "query"),
    [
        ("\n".join(TEXTS), "text/plain", ""),
        ("\n".join(TEXTS), "text/plain; charset=utf-8", "?strict=true"),
        ("\n".join(TEXTS), "application/x-www-form-urlencoded", ""),
        (DATA, "text/plain", "?label_column=1"),
        (json.dumps({"documents": TEXTS}), "application/json", ""),
        ("text,x\n" + "".join(f'"{text}",7\n' for text in TEXTS), "text/csv", ""),
        ("".join(f"{text}\t7\n" for text in TEXTS), "text/tab-separated-values", "?text_column=1"),
    ],
)
def test_documents_are_predicted(documents, content, kind, query):
    answer = predicted(documents, content, kind, query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    values = [each["decision_value"] for each in found["predictions"]]
    assert values == next(Predictor(documents.own).predict_documents(TEXTS)).decision_values.tolist()
    assert (found["rows"], found["unknown_features"]) == (3, 0)


def test_the_model_and_its_page_have_the_heaviest_words(documents):
    shown = documents.request("GET", f"/v1/models/{documents.model}").json()
    assert shown["heaviest"] == json.loads(json.dumps(documents.own.about["heaviest"]))
    page = documents.request("GET", f"/models/{documents.model}").text
    assert "Words for and against a" in page and "bad words" in page and "text/plain" in page
    assert "Words for" not in documents.request("GET", f"/models/{documents.other}").text
    assert "1 to 2 words an n-gram" in documents.request("GET", "/datasets/texts").text


def test_words_on_pages_are_no_markup(service):
    service.request("PUT", "/v1/datasets/texts?format=text&analyzer=char&ngram_range=3,3", content=b"1\t<b>\n-1\tno\n")
    dataset_id = service.store.dataset("texts")["id"]
    about = {"input": service.request("GET", "/v1/datasets/texts").json()["input"]}
    model = Model(np.ones(1 << 20), (1.0, -1.0), 0, about=about)
    model_id = service.add_model(dataset_id, with_heaviest(model, service.settings.datasets / dataset_id))
    page = service.request("GET", f"/models/{model_id}").text
    assert "&lt;b&gt;" in page and "<span><b>" not in page
