"""Few rows of a linear model in memory are predicted in the event loop, exactly as a thread does."""

import bz2
import zlib

import numpy as np
import pytest

from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.models.registry import delete_model
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service, check_problem, model_of_texts, some_model

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


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("accept", ["*/*", "application/x-ndjson", "text/csv", "text/plain"])
def test_predictions_are_the_same_as_those_of_a_thread(closed, in_threads, model, kind, accept, monkeypatch):
    here = send(closed, model, ROWS[kind], kind, Accept=accept)
    assert not in_threads
    monkeypatch.setattr(closed.app.state.prediction_code._loaded, "is_set", lambda: False)
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
