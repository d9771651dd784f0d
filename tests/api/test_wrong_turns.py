"""Wrong turns are answered by a hint that works: somebody new's, paths that no route has, records with odd values."""

import io
import json

import numpy as np
import polars
import pytest
from fastapi.routing import iter_route_contexts

from streamsvm.api.access.auth import OPEN, SCOPES
from streamsvm.api.document import DOCUMENT
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.models.model_file import Model, write_model
from tests.api.app import Service, check_problem, some_model

GOOD = {
    "converged": False, "stop_reason": "max_passes", "passes": 3, "models": [],
    "certificate": dict.fromkeys(
        ("m_plus", "m_minus", "gap", "primal_objective", "dual_objective", "relative_duality_gap", "w_error"), 0.5
    ),
}  # fmt: skip
GOOD["lanes"] = [{"class": 1.0, "fold": None, "C": 1.0, "converged": False, "passes": 3, **GOOD["certificate"]}]
VALUES = (None, float("nan"), float("inf"), -float("inf"), 1e308, 0)
# Each figure of a certificate once, each odd value once.
COLUMNS = {
    **{f"{name}-{value}": {"result": {**GOOD, "certificate": {**GOOD["certificate"], name: value}}}
       for name, value in zip(GOOD["certificate"], (*VALUES, None), strict=True)},
    "no-certificate": {"result": {"converged": False}},
    "result-text": {"result": "nothing"},
    "result-odd": {"result": {"converged": 0, "certificate": 3, "lanes": 7, "models": None}},
    "spec-empty": {"spec": {}, "result": GOOD},
    "spec-odd": {"spec": {"C": None, "tolerance": "x"}, "result": GOOD},
    "transitions-odd": {"transitions": [3], "result": GOOD},
    "progress-nan": {"progress": {"gap": float("nan"), "pass": float("inf")}, "result": GOOD},
    "failure-odd": {"failure": {"code": None}},
}  # fmt: skip
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


@pytest.mark.parametrize("name", COLUMNS)
def test_every_list_shows_the_others(service, name):
    """The page of the job itself takes every value that a result may have."""
    service.request.is_checked = False
    dataset = service.add_dataset("data")
    spec = parse_spec({"dataset": "data"}).model_dump()
    other, odd = (service.store.add_job(dataset, spec) for _ in range(2))
    service.store.claim(odd)
    service.store.finish(odd, "succeeded", result=GOOD)
    with service.store._database.write() as connection:
        for column, value in COLUMNS[name].items():
            connection.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (json.dumps(value), odd))
    answer = service.request("GET", "/v1/jobs")
    assert {job["id"] for job in answer.json()["jobs"]} == {other, odd}
    own = (f"/jobs/{odd}", f"/compare?jobs={odd},{other}", f"/v1/jobs/{odd}/events")
    for path in ("/", "/metrics", f"/v1/jobs/{odd}", *(() if "odd" in name else own)):
        answer = service.request("GET", path)
        assert answer.status_code == 200, (path, answer.text[:500])
        assert "record_unreadable" not in answer.text or name.partition("-")[0] not in GOOD["certificate"]
        assert "NaN" not in answer.text and "Infinity" not in answer.text
    assert service.request("DELETE", f"/v1/jobs/{odd}").status_code == 204


ENDINGS = {"regression": ("epsilon_insensitive", None), "one-problem": ("hinge", None), "odd": ("hinge", {"no": 1})}


@pytest.mark.parametrize("name", ENDINGS)
def test_models_whose_lanes_have_no_class_are_shown(service, name):
    """None is the class of a lane of regression, and of all classes in one problem; an odd one hides no other."""
    loss, label = ENDINGS[name]
    spec = parse_spec({"dataset": "data", "loss": loss, **({"solver": "dcd"} if name == "regression" else {})})
    job = service.store.add_job(service.add_dataset("data"), spec.model_dump())
    model = job.replace("job", "mdl")
    write_model(service.settings.models / model, some_model())
    service.store.claim()
    result = {**GOOD, "lanes": [{**GOOD["lanes"][0], "class": label}], "models": [{"model_id": model, "C": 1.0}]}
    service.store.finish(job, "succeeded", result=result, model_id=model)
    for path in ("/", *(() if name == "odd" else (f"/jobs/{job}", f"/models/{model}"))):
        answer = service.request("GET", path)
        assert answer.status_code == 200 and model in answer.text, path


ODD_PREDICTIONS = {
    "spec": "{", "result": '{"rows": 1}', "failure": "[3", "requested": "later", "model_id": "mdl_x",
}  # fmt: skip


@pytest.mark.parametrize("column", ODD_PREDICTIONS)
def test_an_odd_prediction_costs_itself(service, column):
    service.request.is_checked = False
    service.store.adopt_model("mdl_1", "then")
    asked = {"model": "m", "import": "a.csv", "destination": "b.csv"}
    other, odd = (service.store.add_prediction("mdl_1", asked) for _ in range(2))
    with service.store._database.write() as connection:
        connection.execute(f"UPDATE predictions SET {column} = ? WHERE id = ?", (ODD_PREDICTIONS[column], odd))
    progress = service.settings.predictions / odd / "progress.json"
    (progress if column == "failure" else progress.parent).mkdir(parents=True)  # a directory cannot be read
    if column != "failure":
        progress.write_text("[1]" if column == "spec" else '{"rows": null}')
    assert [each["id"] for each in service.request("GET", "/v1/predictions").json()["predictions"]] == [odd, other]
    assert service.request("GET", f"/v1/predictions/{odd}").json()["progress"] is None
    assert service.request("POST", f"/v1/predictions/{odd}/cancel").json()["state"] == "cancelled"
    assert service.request("DELETE", f"/v1/predictions/{odd}").status_code == 204


def operations(app) -> list[str]:
    """The operationId of every route but the document's."""
    return [getattr(route, "operation_id", route.path) for route in iter_route_contexts(app.routes)]


def test_the_document_in_the_tree_is_that_of_the_service(filled):
    found = filled.request("GET", "/openapi.json").json()
    assert found == json.loads(DOCUMENT.read_text()), "a route has changed: run make openapi and look at the difference"


def test_every_route_has_an_operation_id_of_its_own_and_a_scope(filled):
    names = sorted(operations(filled.app))
    assert names == sorted(SCOPES.keys() | OPEN), "say in api/access/auth.py who may use the route"


@pytest.mark.parametrize("path", ["/v1", "/v2/health", "/v1/jobs/a/b/c", "/docs", "/..%2f..%2fetc/passwd"])
def test_what_is_no_route(filled, path):
    check_problem(filled.request("GET", path), "no_such_route", 404)


def test_a_person_who_is_lost_gets_a_page(filled):
    answer = filled.request("GET", "/nowhere", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    assert "There is no page /nowhere" in answer.text and 'href="/"' in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/datasets"),
        ("PATCH", "/v1/datasets/data"),
        ("PUT", "/v1/jobs"),
        ("DELETE", "/v1/models"),
        ("GET", "/v1/models/mdl_0/predict"),
        ("POST", "/v1/jobs/job_0/history"),
        ("OPTIONS", "/v1/jobs"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(filled, method, path):
    response = filled.request(method, path)
    check_problem(response, "method_not_allowed", 405)
    assert response.headers["allow"]


def test_query_parameters_a_route_does_not_have_are_refused(filled):
    document = filled.request("GET", "/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods.keys() & {"get", "put", "post", "patch", "delete"}:
            ids = {"job_id": "job_0", "prediction_id": "prd_0", "model_id": filled.model, "upload_id": "ds_0"}
            url = path.format(name="data", version=1, block=0, alias="a", **ids)
            found = check_problem(filled.request(method.upper(), f"{url}?spam=1"), "unknown_parameter", 422)
            assert "'spam'" in found["detail"]
    assert filled.request("GET", "/v1/datasets/data").status_code == 200


def test_a_query_parameter_is_given_once(filled):
    url = f"/v1/models/{filled.model}/file?format=onnx&format=npz"
    check_problem(filled.request("GET", url), "duplicate_parameter", 422)
