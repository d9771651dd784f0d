"""The shortcut answers predictions of a few rows exactly as the route does."""

import bz2
import json
import zlib

import numpy as np
import pytest

from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.models.registry import delete_model
from streamsvm.storage.models.model_file import Model
from tests.api.app import check_problem, model_of_texts, some_model

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
    model_id = closed.add_model(closed.add_dataset(request.param.__name__), request.param())
    load_predictor(closed.settings, model_id)
    return model_id


def send(service, path: str, body: bytes, kind: str = "application/json", **headers: str):
    told = {"Authorization": f"Bearer {service.token}", **({"Content-Type": kind} if kind else {}), **headers}
    return service.request("POST", path, content=body, headers=told)


def both_ways(service, routed, path: str, long: str, *arguments, **headers: str):
    """Return the shortcut's answer, after comparing it with the route's."""
    short = send(service, path, *arguments, **headers)
    assert not routed
    usual = send(service, long, *arguments, **headers)
    assert routed
    assert short.status_code == usual.status_code == 200 and short.content == usual.content
    assert [short.headers.get(name) for name in SAME] == [usual.headers.get(name) for name in SAME]
    assert {*short.headers} == {*usual.headers} and short.headers["x-request-id"] != usual.headers["x-request-id"]
    return short


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("accept", ["*/*", "application/x-ndjson", "text/csv", "text/plain"])
def test_predictions_are_the_same_and_the_framework_is_not_asked(closed, routed, model, kind, accept):
    path = f"/v1/models/{model}/predict"
    assert (
        both_ways(closed, routed, path, f"{path}?strict=false", ROWS[kind], kind, Accept=accept).headers["rows"] == "2"
    )


def test_features_that_the_model_does_not_have_are_told(closed, routed, model):
    path = f"/v1/models/{model}/predict"
    found = both_ways(closed, routed, path, f"{path}?strict=false", b'{"rows": [{"9": 1}]}')
    assert found.json()["unknown_features"] == 1


@pytest.mark.parametrize(
    ("path", "body", "headers", "code"),
    [
        ("/v1/models/{}/predict", b'{"rows": [{"1": "x"}]}', {}, "wrong_type"),
        ("/v1/models/{}/predict", b"{", {}, "bad_json"),
        ("/v1/models/{}/predict", b'{"rows": []}', {}, "no_rows"),
        ("/v1/models/{}/predict", b"1 x\n", {"Content-Type": "text/libsvm"}, "bad_pair"),
        ("/v1/models/{}/predict", b"1", {"Content-Type": "image/png"}, "unknown_format"),
        ("/v1/models/{}/predict", b"1", {"Content-Type": "multipart/form-data"}, "multipart"),
        ("/v1/models/{}/predict", b"1", {"Authorization": "Bearer ssvm_wrong"}, "token_invalid"),
    ],
)
def test_faults_are_told_the_usual_way(closed, routed, model, path, body, headers, code):
    check_problem(send(closed, path.format(model), body, **headers), code)
    assert routed


def test_a_long_body_goes_the_usual_way(closed, routed, model):
    body = json.dumps({"rows": [{"1": 1.0}] * 2000}).encode()
    found = send(closed, f"/v1/models/{model}/predict", body)
    assert routed and found.json()["rows"] == 2000


def test_a_model_that_was_deleted_is_unknown_at_once(closed):
    model = closed.add_model(closed.add_dataset("deleted"), some_model())
    load_predictor(closed.settings, model)
    path = f"/v1/models/{model}"
    assert send(closed, f"{path}/predict", ROWS["text/libsvm"], "text/libsvm").status_code == 200
    delete_model(closed.settings, closed.store, model)
    check_problem(send(closed, f"{path}/predict", ROWS["text/libsvm"], "text/libsvm"), "unknown_model", 404)


def test_the_first_predictions_after_a_move_of_an_alias_are_not_left_to_the_route(closed, routed):
    """The version that an alias is moved to is in memory by then, and what the alias means is looked up on the way."""
    dataset = closed.add_dataset("moves")
    for bias in (1.0, 0.5):
        closed.store.register_model("moves", closed.add_model(dataset, some_model(bias=bias)))
    closed.store.move_alias("moves", "champion", 1, "me")
    path, authorized = (
        "/v1/models/moves@champion/predict",
        {"Authorization": f"Bearer {closed.tokens.new('me', 'submit')}"},
    )
    assert send(closed, path, ROWS["text/libsvm"], "text/libsvm").headers["Model-Version"] == "1"
    for version in (2, 1):
        alias = "/v1/registered-models/moves/aliases/champion"
        assert closed.request("PUT", alias, json={"version": version}, headers=authorized).is_success
        routed.clear()
        assert send(closed, path, ROWS["text/libsvm"], "text/libsvm").headers["Model-Version"] == str(version)
        assert not routed


def test_predictions_are_logged_and_counted(closed, model, caplog):
    with caplog.at_level("INFO", "streamsvm.api"):
        send(closed, f"/v1/models/{model}/predict", ROWS["text/libsvm"], "text/libsvm")
    (line,) = [record for record in caplog.records if record.message == "request"]
    assert line.fields["path"] == f"/v1/models/{model}/predict" and line.fields["status"] == 200
    text = closed.request("GET", "/metrics", headers={"Authorization": f"Bearer {closed.token}"}).text
    assert 'route="/v1/models/{model_id}/predict",status="200"' in text


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/models/{}/predict", zlib.compress(b"1 1:1\n" * 20, wbits=31), "text/libsvm"),
        ("/v1/models/{}/predict", bz2.compress(b"1\n" * 20), "text/libsvm"),
        ("/v1/models/{}/predict", b"1\n" * 300, "text/libsvm"),
        ("/v1/models/{}/predict", b"1,2,3,4\r" * 300, "text/csv"),
        ("/v1/models/{}/predict", b'{"rows":[' + b",".join([b"{}"] * 300) + b"]}", "application/json"),
    ],
)
def test_work_that_would_hold_up_others_goes_the_usual_way(closed, routed, model, path, body, kind):
    send(closed, path.format(model), body, kind)
    assert routed


@pytest.mark.parametrize("rows", [3, 5])
def test_of_many_classes_few_rows_are_many_values(closed, routed, rows):
    many = Model(np.ones((1000, 4)), tuple(map(float, range(1000))), 1, None, (0.0,) * 1000, {"loss": "hinge"})
    model = closed.add_model(closed.add_dataset(f"classes-{rows}"), many)
    load_predictor(closed.settings, model)
    assert send(closed, f"/v1/models/{model}/predict", b"1 1:1\n" * rows, "text/libsvm").headers["rows"] == str(rows)
    assert len(routed) == (0 if rows == 3 else 1)
