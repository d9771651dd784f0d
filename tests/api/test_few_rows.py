"""Few rows of a linear model in memory are predicted in the event loop, as a thread does, by a frequent route."""

import bz2
import subprocess
import sys
import zlib

import numpy as np
import pytest

from streamsvm.api.routes import predicting
from streamsvm.api.routes.predicting import PredictionCode
from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.models.registry import delete_model
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service, check_problem, model_of_texts, some_model

# In a process of its own: the others have loaded some of the code already.
LOADS = """
import gc, io, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from streamsvm.api.app import create_app
from streamsvm.api.routes.predicting import PredictionCode, predicted_rows
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.settings import Settings
from tests.api.app import model_of_texts, some_model
from tests.raw_models import table_model

def loaded():
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return {*sys.modules, *((each.py_func.__qualname__, types) for each in kernels for types in each.overloads)}

settings = Settings(Path(sys.argv[1]))
code = PredictionCode()
code.load()
assert code.is_loaded
before = loaded()
bodies = ("json", b'{"rows": [{"1": 2.5}]}'), ("libsvm", b"1 1:0.1\\n"), ("csv", b"1,2,3,4\\n")
row = b'{"rows": [{"proto": "tcp", "size": 1, "flag": null}]}'
tables = ("json", row), ("auto", b"proto,size,flag\\ntcp,1,S0\\n")
models = [(some_model(), bodies), (model_of_texts(), bodies), (table_model(), tables)]
models.append((table_model(categories="hashed", n_features=3), tables))
for model, rows in models:
    for kind, body in rows:
        predicted_rows(Predictor(model), InputOptions(kind), [body], io.BytesIO())
print(sorted(map(str, loaded() - before)))
"""
BODY = b'{"rows": [{"1": 2.5, "9": -1}, {"4": 1}]}'
OWN = {"x-request-id"}  # headers whose values differ from answer to answer
ROWS = {
    "application/json": b'{"rows": [{"1": 2.5, "3": -1}, {"4": 1}]}',
    "text/libsvm": b"1 1:2.5 3:-1\n-1 4:1\n",
    "text/csv": b"2.5,0,-1,0\n0,0,0,1\n",
    "": b"1 1:2.5 3:-1\n-1 4:1\n",
}
SAME = ("content-type", "rows", "unknown-features", "content-length")


@pytest.fixture(scope="module", params=[some_model, model_of_texts])
def model(request, closed):
    """A linear model that is in memory."""
    return loaded_model(closed, request.param.__name__, request.param())


def loaded_model(service: Service, name: str, model: Model) -> str:
    model_id = service.add_model(service.add_dataset(name), model)
    load_predictor(service.settings, model_id)
    return model_id


def send(service: Service, model: str, body: bytes, kind: str = "application/json", **headers: str):
    told = {"Authorization": f"Bearer {service.token}", **({"Content-Type": kind} if kind else {}), **headers}
    return service.request("POST", f"/v1/models/{model}/predict", content=body, headers=told)


@pytest.mark.parametrize(
    ("kind", "accept"), [*zip(ROWS, ["*/*", "application/x-ndjson", "text/csv", "text/plain"], strict=True)]
)
def test_predictions_are_the_same_as_those_of_a_thread(closed, in_threads, model, kind, accept, monkeypatch):
    here = send(closed, model, ROWS[kind], kind, Accept=accept)
    assert not in_threads
    monkeypatch.setattr(closed.app.state.prediction_code, "is_loaded", False)
    there = send(closed, model, ROWS[kind], kind, Accept=accept)
    assert in_threads
    assert here.status_code == there.status_code == 200 and here.content == there.content
    assert [here.headers.get(name) for name in SAME] == [there.headers.get(name) for name in SAME]
    assert {*here.headers} == {*there.headers} and here.headers["rows"] == "2"


def test_features_that_the_model_does_not_have_are_told(closed, in_threads, model):
    assert send(closed, model, b'{"rows": [{"9": 1}]}').json()["unknown_features"] == 1
    assert not in_threads


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b'{"rows": [{"1": "x"}]}', {}, "wrong_type"),
        (b"{", {}, "bad_json"),
        (b'{"rows": []}', {}, "no_rows"),
        (b"1 x\n", {"Content-Type": "text/libsvm"}, "bad_pair"),
        (b"1", {"Content-Type": "image/png"}, "unknown_format"),
        (b"1", {"Content-Type": "multipart/form-data"}, "multipart"),
    ],
)
def test_faults_are_told(closed, in_threads, model, body, headers, code):
    check_problem(send(closed, model, body, **headers), code)
    assert not in_threads


def test_a_model_that_was_deleted_is_unknown_at_once(closed):
    model = loaded_model(closed, "deleted", some_model())
    assert send(closed, model, ROWS["text/libsvm"], "text/libsvm").status_code == 200
    delete_model(closed.settings, closed.store, model)
    check_problem(send(closed, model, ROWS["text/libsvm"], "text/libsvm"), "unknown_model", 404)


def test_the_first_predictions_after_a_move_of_an_alias_take_no_thread(closed, in_threads):
    """The version that an alias is moved to is in memory by then, and what the alias means is looked up on the way."""
    dataset = closed.add_dataset("moves")
    for bias in (1.0, 0.5):
        closed.store.register_model("moves", closed.add_model(dataset, some_model(bias=bias)))
    closed.store.move_alias("moves", "champion", 1, "me")
    authorized = {"Authorization": f"Bearer {closed.tokens.new('me', 'submit')}"}
    first = send(closed, "moves@champion", ROWS["text/libsvm"], "text/libsvm")
    assert first.headers["Model-Version"] == "1"
    for version in (2, 1):
        alias = "/v1/registered-models/moves/aliases/champion"
        assert closed.request("PUT", alias, json={"version": version}, headers=authorized).is_success
        in_threads.clear()
        moved = send(closed, "moves@champion", ROWS["text/libsvm"], "text/libsvm")
        assert moved.headers["Model-Version"] == str(version)
        assert not in_threads


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (zlib.compress(b"1 1:1\n" * 20, wbits=31), "text/libsvm"),
        (bz2.compress(b"1\n" * 20), "text/libsvm"),
        (b"1\n" * 300, "text/libsvm"),
        (b"1,2,3,4\r" * 300, "text/csv"),
        (b'{"rows":[' + b",".join([b"{}"] * 300) + b"]}", "application/json"),
        (b"PAR1", ""),
        (b"1 1:1\n", "application/x-npz"),
    ],
)
def test_work_that_would_hold_up_others_takes_a_thread(closed, in_threads, model, body, kind):
    send(closed, model, body, kind)
    assert in_threads


@pytest.mark.parametrize(
    ("query", "body", "takes_one"), [("strict=true", b"1,2,3,4\n", False), ("delimiter=semicolon", b"1;2;3;4\n", True)]
)
def test_options_that_load_more_code_take_a_thread(closed, in_threads, model, query, body, takes_one):
    headers = {"Authorization": f"Bearer {closed.token}", "Content-Type": "text/csv"}
    assert closed.request("POST", f"/v1/models/{model}/predict?{query}", content=body, headers=headers).is_success
    assert bool(in_threads) == takes_one


@pytest.mark.parametrize("rows", [3, 5])
def test_of_many_classes_few_rows_are_many_values(closed, in_threads, rows):
    many = Model(np.ones((1000, 4)), tuple(map(float, range(1000))), 1, None, (0.0,) * 1000, {"loss": "hinge"})
    model = loaded_model(closed, f"classes-{rows}", many)
    assert send(closed, model, b"1 1:1\n" * rows, "text/libsvm").headers["rows"] == str(rows)
    assert bool(in_threads) == (rows > 4)


@pytest.fixture(scope="module", params=["getJob", "predict"])
def frequent(request, closed):
    """Method, path, a parameter that changes nothing, and body of a request; and its route in the document."""
    if request.param == "getJob":
        return "GET", f"/v1/jobs/{closed.job}", "wait_seconds=0", b"", "/v1/jobs/{job_id}"
    model = closed.add_model(closed.add_dataset("rows"), some_model())
    load_predictor(closed.settings, model)
    return "POST", f"/v1/models/{model}/predict", "strict=false", BODY, "/v1/models/{model_id}/predict"


@pytest.fixture
def routed(closed, monkeypatch):
    """Paths of requests that reach the framework's routes."""
    paths = []

    async def note(scope, receive, send, routes=closed.app.router.middleware_stack):
        paths.append(scope["path"])
        await routes(scope, receive, send)

    monkeypatch.setattr(closed.app.router, "middleware_stack", note)
    return paths


def ask(service: Service, frequent, query: str = "", **headers: str):
    method, path, _, body, _ = frequent
    return service.request(method, f"{path}{query}", content=body, headers=headers)


def authorized(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.token}"}


def test_the_answer_is_the_same_and_the_framework_is_not_asked(closed, frequent, routed):
    short = ask(closed, frequent, **authorized(closed))
    assert not routed
    long = ask(closed, frequent, f"?{frequent[2]}", **authorized(closed))
    assert routed
    assert short.status_code == long.status_code == 200 and short.content == long.content
    differ = {name for name in {*short.headers, *long.headers} if short.headers.get(name) != long.headers.get(name)}
    assert differ == OWN and short.headers["content-type"] == "application/json"


def test_a_cookie_is_as_good(closed, frequent, routed):
    same_site = {"Sec-Fetch-Site": "same-origin"}
    assert ask(closed, frequent, Cookie=f"streamsvm_token={closed.token}", **same_site).status_code == 200
    assert not routed


def test_requests_are_counted(closed, frequent):
    line = f'streamsvm_http_requests_total{{method="{frequent[0]}",route="{frequent[4]}",status="200"}}'

    def counted() -> float:
        text = closed.request("GET", "/metrics", headers=authorized(closed)).text
        return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))

    before = counted()
    for query in ("", f"?{frequent[2]}"):
        assert ask(closed, frequent, query, **authorized(closed)).is_success
    assert counted() == before + 2


@pytest.mark.parametrize("has_query", [False, True])
def test_requests_are_logged_but_for_polls(closed, frequent, caplog, has_query):
    with caplog.at_level("INFO", "streamsvm.api"):
        ask(closed, frequent, f"?{frequent[2]}" if has_query else "", **authorized(closed))
    lines = [record.fields for record in caplog.records if record.message == "request"]
    assert len(lines) == (frequent[0] == "POST" or has_query)
    assert all((line["path"], line["status"], line["token"]) == (frequent[1], 200, "reader") for line in lines)


def test_a_poll_that_fails_is_logged(closed, caplog):
    with caplog.at_level("INFO", "streamsvm.api"):
        closed.request("GET", f"/v1/jobs/{closed.job}", headers={})
    (line,) = [record.fields for record in caplog.records if record.message == "request"]
    assert (line["status"], line["job_id"]) == (401, closed.job)


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({}, "token_missing", 401),
        ({"Authorization": "Bearer ssvm_wrong"}, "token_invalid", 401),
        ({"Authorization": "Basic x"}, "token_invalid", 401),
        ({"Host": "evil.example"}, "host_not_allowed", 421),
    ],
)
def test_who_may_not_is_refused(closed, frequent, headers, code, status):
    check_problem(ask(closed, frequent, **headers), code, status)


def test_other_paths_and_methods_are_others_business(closed, frequent):
    method, path, _, _, _ = frequent
    check_problem(ask(closed, frequent, "?x=1", **authorized(closed)), "unknown_parameter", 422)
    check_problem(closed.request("PATCH", path, headers=authorized(closed)), "method_not_allowed", 405)
    check_problem(closed.request(method, f"{path}/x", headers=authorized(closed)), "no_such_route", 404)
    unknown = path.replace("job_0", "job_1").replace("mdl_0", "mdl_1")
    missing = closed.request(method, unknown, headers=authorized(closed))
    check_problem(missing, "unknown_job" if method == "GET" else "unknown_model", 404)
    check_problem(closed.request("DELETE", f"/v1/jobs/{closed.job}", headers=authorized(closed)), "scope_missing", 403)
    history = closed.request("GET", f"/v1/jobs/{closed.job}/history", headers=authorized(closed))
    assert history.json() == {"passes": []}


def test_predictions_load_nothing_more(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOADS, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_code_that_cannot_be_loaded_leaves_predictions_to_threads_and_says_so(monkeypatch, caplog):
    def fail():
        raise OSError("no file of numba's")

    monkeypatch.setattr(predicting, "samples", fail)
    code = PredictionCode()
    code.load()
    assert not code.is_loaded and "threads predict all rows" in caplog.text
