"""/v2: the Open Inference Protocol in JSON and in binary, and its errors."""

import json
import sqlite3

import numpy as np
import pytest

from tests.api.app import Service, check_problem, some_model

ROWS = [[1.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 3.0]]
DENSE = {"inputs": [{"name": "X", "shape": [2, 4], "datatype": "FP64", "data": ROWS}]}
TEXT = b"0 1:1 3:0.5\n0 4:3\n"
LENGTH = "Inference-Header-Content-Length"


def expected(filled) -> dict[str, list[float]]:
    predictions = filled.request("POST", f"/v1/models/{filled.model}/predict", content=TEXT).json()["predictions"]
    return {name: [row[name] for row in predictions] for name in ("label", "decision_value")}


def infer(filled, **arguments):
    return filled.request("POST", f"/v2/models/{filled.model}/infer", **arguments)


def test_dense_rows_in_json(filled):
    answer = infer(filled, json={**DENSE, "id": "42"}).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == (filled.model, "1", "42")
    assert {output["name"]: output["data"] for output in answer["outputs"]} == expected(filled)
    assert {(output["datatype"], *output["shape"]) for output in answer["outputs"]} == {("FP64", 2)}


def test_rows_and_answers_in_binary(filled):
    X = np.array(ROWS)
    tensor = {"name": "X", "shape": [2, 4], "datatype": "FP64", "parameters": {"binary_data_size": X.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    answer = infer(filled, content=head + X.tobytes(), headers={LENGTH: str(len(head))})
    length = int(answer.headers[LENGTH])
    assert answer.headers["content-type"] == "application/octet-stream"
    values = np.frombuffer(answer.content[length:]).reshape(2, 2).tolist()
    names = [output["name"] for output in json.loads(answer.content[:length])["outputs"]]
    assert dict(zip(names, values, strict=True)) == expected(filled)


def test_several_texts_in_json_and_in_binary(filled):
    url = f"/v2/models/{filled.texts}/infer"
    outputs = {output["name"]: output for output in filled.request("POST", url, json=DENSE).json()["outputs"]}
    predictions = filled.request("POST", f"/v1/models/{filled.texts}/predict", content=TEXT).json()["predictions"]
    assert (outputs["label"]["datatype"], outputs["label"]["shape"]) == ("BYTES", [2])
    assert outputs["label"]["data"] == [row["label"] for row in predictions]
    for name in ("decision_value", "probability"):
        assert (outputs[name]["datatype"], outputs[name]["shape"]) == ("FP64", [2, 3])
        np.testing.assert_allclose(outputs[name]["data"], [x for row in predictions for x in row[name]], rtol=1e-12)
    binary = {**DENSE, "outputs": [{"name": "label", "parameters": {"binary_data": True}}]}
    answer = filled.request("POST", url, json=binary)
    expected = b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in outputs["label"]["data"])
    assert answer.content[int(answer.headers[LENGTH]) :] == expected


def test_only_what_is_asked_for_comes(filled):
    answer = infer(filled, json={**DENSE, "outputs": [{"name": "decision_value"}]}).json()
    assert [output["name"] for output in answer["outputs"]] == ["decision_value"]
    assert "prob" not in json.dumps(filled.request("GET", f"/v2/models/{filled.model}").json())


def test_a_model_says_which_tensors_it_takes(filled):
    found = filled.request("GET", f"/v2/models/{filled.model}").json()
    assert [tensor["name"] for tensor in found["inputs"]] == ["X", "indptr", "indices", "values"]
    assert found["inputs"][0] == {"name": "X", "datatype": "FP64", "shape": [-1, 4]}
    assert [tensor["name"] for tensor in found["outputs"]] == ["label", "decision_value"]


def test_the_service_and_a_model_are_live_and_ready(filled):
    assert filled.request("GET", "/v2/health/live").json() == {"live": True}
    assert filled.request("GET", "/v2/health/ready").json() == {"ready": True}
    assert filled.request("GET", f"/v2/models/{filled.model}/ready").json()["ready"] is True
    assert "binary_tensor_data" in filled.request("GET", "/v2").json()["extensions"]


def test_a_service_whose_records_cannot_be_read_is_live_but_not_ready(service, monkeypatch):
    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("streamsvm.service.records.database.Database.rows", fail)
    assert service.request("GET", "/v2/health/live").status_code == 200
    check_problem(service.request("GET", "/v2/health/ready"), "unavailable", 503)


@pytest.mark.parametrize("path", ["", "/ready", "/infer"])
def test_a_model_that_is_none(filled, path):
    method = "POST" if path == "/infer" else "GET"
    check_problem(filled.request(method, f"/v2/models/mdl_0{path}", json=DENSE), "unknown_model", 404)


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ({"content": b""}, "bad_json", 400),
        ({"content": b"{"}, "bad_json", 400),
        ({"json": {}}, "bad_tensor", 422),
        ({"json": {"inputs": []}}, "bad_tensor", 422),
        ({"json": {**DENSE, "outputs": [{"name": "probability"}]}}, "bad_tensor", 422),
        ({"json": DENSE, "headers": {LENGTH: "99999"}}, "bad_tensor", 422),
        ({"json": DENSE, "headers": {LENGTH: "10"}}, "bad_json", 400),
        ({"json": DENSE, "headers": {LENGTH: "-1"}}, "wrong_type", 422),
        ({"json": DENSE, "headers": {LENGTH: "x"}}, "wrong_type", 422),
        ({"json": DENSE, "headers": {"Content-Encoding": "gzip"}}, "unknown_format", 415),
        ({"content": b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP64","data":[NaN]}]}'}, "not_finite", 422),
    ],
)
def test_requests_that_cannot_be_answered(filled, arguments, code, status):
    check_problem(infer(filled, **arguments), code, status)


def test_a_body_of_tensors_that_is_too_large(tmp_path):
    service = Service(tmp_path, max_infer_bytes=100)
    service.model = service.add_model(service.add_dataset("data"), some_model())
    check_problem(infer(service, json=DENSE), "body_too_large", 413)


def test_few_bytes_that_say_very_many_rows(tmp_path):
    service = Service(tmp_path, max_infer_bytes=2000)
    service.model = service.add_model(service.add_dataset("data"), some_model())
    n = 1000
    sparse = {"indptr": n + 1, "indices": 0, "values": 0}
    tensors = [
        {"name": name, "shape": [size], "datatype": "UINT8", "parameters": {"binary_data_size": size}}
        for name, size in sparse.items()
    ]
    head = json.dumps({"inputs": tensors}).encode()
    answer = infer(service, content=head + bytes(n + 1), headers={LENGTH: str(len(head))})
    check_problem(answer, "answer_too_large", 413)
