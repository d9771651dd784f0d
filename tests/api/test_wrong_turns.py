"""Wrong turns of somebody new: each is answered by a hint that works as it stands."""

import io
import json

import numpy as np
import polars
import pytest

from streamsvm.storage.models.model_file import Model
from tests.api.app import Service

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
DOCUMENTS = {"format": "text", "n_features": 1024, "analyzer": "word", "ngram_range": [1, 1], "alternate_sign": True,
             "lowercase": True}  # fmt: skip
TABLE = "label,x\n1,1\n0,2\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a dataset, and models of numbers, of labels that are texts, and of documents."""
    service = Service(tmp_path_factory.mktemp("turns"))
    dataset_id = service.add_dataset("magic")
    for name, model in {
        "numbers": Model(np.array([1.0, -1.0]), (1.0, -1.0), 1),
        "words": Model(np.array([1.0, -1.0]), ("yes", "no"), 1),
        "texts": Model(np.ones(1024), ("good", "bad"), 0, about={"input": DOCUMENTS, "loss": "hinge", "C": 1.0}),
    }.items():
        service.store.register_model(name, service.add_model(dataset_id, model))
    return service


TURNS = {
    "a post of a file": ("POST", "/v1/datasets/mine", {"content": TABLE}, "method_not_allowed",
                         "This path takes DELETE, GET, PUT: curl -X PUT, or -T FILE, sends PUT."),
    "a put to predict": ("PUT", "/v1/models/numbers/predict", {"content": TABLE}, "method_not_allowed",
                         "This path takes POST: curl --data-binary @FILE, or --json, sends POST."),
    "a path": ("GET", "/v1/jobs/job_0/event", {}, "no_such_route", "Did you mean /v1/jobs/{job_id}/events?"),
    "a noun": ("GET", "/v1/dataset/magic", {}, "no_such_route", "Did you mean /v1/datasets/{name}?"),
    "another path": ("GET", "/v9/nothing/at/all", {}, "no_such_route", "All routes are at /reference"),
    "a long path": ("GET", f"/v1/jobs/{'j' * 60_000}/event", {}, "no_such_route", "All routes are at /reference"),
    "joined lines": ("PUT", "/v1/datasets/mine", {"content": TABLE.replace("\n", ""), "headers": FORM}, None,
                     "curl's -d joins the lines of a file: send it with -T or --data-binary @FILE."),
    "joined rows": ("POST", "/v1/models/numbers/predict", {"content": "x,yx,y", "headers": FORM}, None,
                    "curl's -d joins the lines of a file: "),
    "a form of rows": ("POST", "/v1/models/numbers/predict", {"files": {"file": b"1,2"}}, "multipart",
                       "Send the file itself: curl --data-binary @FILE URL."),
    "a range": ("PUT", "/v1/datasets/mine?format=text&ngram_range=1-2", {"content": "a\tb c"}, "wrong_type",
                "ngram_range, of documents: the least and the most n of n-grams, up to 16 (default: 1,1)."),
    "a format": ("PUT", "/v1/datasets/mine?format=cvs", {"content": TABLE}, "wrong_type", "Did you mean csv? "),
    "a truth value": ("POST", "/v1/models/numbers/predict?strict=maybe", {"content": TABLE}, "wrong_type",
                      "Give yes or no."),
    "no dataset": ("POST", "/v1/jobs", {"json": {"dataset": "magik"}}, "unknown_dataset", "Did you mean magic? "),
    "no model": ("GET", "/v1/models/numbres", {}, "unknown_model", "Did you mean numbers? "),
    "fields in the query": ("POST", "/v1/jobs?dataset=magic", {}, "unknown_parameter",
                            "It has none: fields go into the body, as JSON."),
    "a comma": ("POST", "/v1/jobs", {"content": '{"dataset": "magic",}'}, "bad_json",
                "Send one JSON object in UTF-8, such as --json '{\"dataset\": \"mine\"}' with curl."),
    "a map": ("POST", "/v1/jobs", {"json": {"dataset": "magic", "features": ["scaling"]}}, "features_range",
              "Did you mean scale? "),
    "a format of no model": ("GET", "/v1/models/words/file?format=liblinear", {}, "not_exportable",
                             "these formats hold the model: format=npz"),
    "a list of rows": ("POST", "/v1/models/numbers/predict", {"json": [[1, 2]]}, "bad_json",
                       'Send the list as the rows of an object: {"rows": [...]}.'),
    "texts as rows": ("POST", "/v1/models/texts/predict", {"json": {"rows": ["a text"]}}, "unknown_field",
                      'Send {"documents": ["a text"]}.'),
    "a document": ("POST", "/v1/models/texts/predict", {"json": {"document": "a text"}}, "unknown_field",
                   'Did you mean documents? Send {"documents": ["a text"]}.'),
    "https": ("PUT", "/v1/datasets/mine?import=https://a.b/c", {}, "source_scheme", "There are s3://, gs://"),
}  # fmt: skip


@pytest.mark.parametrize("turn", TURNS)
def test_a_hint_says_what_works(served, turn):
    method, path, arguments, code, hint = TURNS[turn]
    answer = served.request(method, path, **arguments)
    problem = answer.json()
    assert answer.status_code >= 400 and (code is None or problem["code"] == code), problem
    assert problem["hint"].startswith(hint)


def test_a_fault_of_json_has_its_place(served):
    answer = served.request("POST", "/v1/jobs", content='{"dataset": "magic",\n "C": 1,}')
    assert answer.json()["at"]["line"] == 2 and "double quotes" in answer.json()["detail"]


def test_a_download_without_a_format_has_one_that_holds_the_model(served):
    for name, kind in (("numbers", "text/plain"), ("words", "application/zip")):
        answer = served.request("GET", f"/v1/models/{name}/file")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind)


def test_json_lines_are_told_from_an_object(served):
    url = "/v1/models/numbers/predict"
    lines = "".join(json.dumps(row) + "\n" for row in ({"1": 1.0, "2": 0.5}, {"1": -1.0, "2": 2.0}))
    assert [each["label"] for each in served.request("POST", url, content=lines).json()["predictions"]] == [1, -1]
    rows = json.dumps({"rows": [{"1": 1.0, "2": 0.5}]}) + "\n"
    assert served.request("POST", url, content=rows).json()["rows"] == 1


def test_documents_in_a_named_column_are_not_lines(served):
    """A model of documents that were lines takes those of a table if it is told their column."""
    table = 'id,review\n1,"a fine\nfilm"\n2,"a dull film"\n'
    answer = served.request("POST", "/v1/models/texts/predict?text_column=review", content=table)
    assert answer.json()["rows"] == 2


def test_a_file_of_polars_is_read(served):
    sink = io.BytesIO()
    frame = polars.DataFrame({"label": [0, 1] * 20, "x": [float(k % 7) for k in range(40)], "w": ["a", "b"] * 20})
    frame.with_columns(polars.col("w").cast(polars.Categorical)).write_ipc(sink)
    answer = served.request("PUT", "/v1/datasets/polars?categorical=w", content=sink.getvalue())
    assert answer.status_code == 201 and answer.json()["rows"] == 40 and answer.json()["features"] == 3
