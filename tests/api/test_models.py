"""/v1/models: downloads that load again, predictions that are the predictor's."""

import asyncio
import csv
import gzip
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
import zstandard

from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.shares import Room
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from tests.api.app import CERTIFICATE, Service, check_problem, some_model

PATIENCE_SECONDS = 30
TEXT = b"1 1:1 3:0.5\n-1 4:3 9:1\n0\n1 2:7\n"


def test_a_model_is_shown_with_its_certificate(filled):
    shown = filled.request("GET", f"/v1/models/{filled.model}").json()
    assert (shown["id"], shown["features"], shown["labels"], shown["bias"]) == (filled.model, 4, [1.0, -1.0], 1.0)
    assert shown["certificate"] == CERTIFICATE
    assert filled.store.job(shown["job_id"])["model_id"] == filled.model
    listed = filled.request("GET", "/v1/models").json()["models"]
    assert [model["id"] for model in listed] == sorted([filled.model, filled.half, filled.texts], reverse=True)
    texts = filled.request("GET", f"/v1/models/{filled.texts}").json()
    assert (texts["labels"], texts["probability"]) == (["ham", "spam", "ü"], "sigmoid")


@pytest.mark.parametrize("name", sorted(MODEL_FORMATS.keys() - {"libsvm"}))
def test_a_download_that_broke_off_is_taken_up_again(filled, name):
    url = f"/v1/models/{filled.model}/file?format={name}"
    whole, kind = filled.request("GET", url), MODEL_FORMATS[name]
    assert whole.headers["content-type"] == kind.media_type
    assert f'filename="{filled.model}{kind.suffix}"' in whole.headers["content-disposition"]
    assert kind.read(io.BytesIO(whole.content)).w.tobytes() == some_model().w.tobytes()
    assert int(whole.headers["content-length"]) == len(whole.content)
    headers = {"Range": "bytes=40-", "If-Range": whole.headers["etag"]}
    rest = filled.request("GET", url, headers=headers)
    assert rest.status_code == 206
    assert rest.headers["content-range"] == f"bytes 40-{len(whole.content) - 1}/{len(whole.content)}"
    assert whole.content[:40] + rest.content == whole.content
    other = filled.request("GET", url, headers={**headers, "If-Range": '"other"'})
    assert (other.status_code, other.content) == (200, whole.content)


def test_a_model_that_is_there_already_is_not_sent_again(filled):
    url = f"/v1/models/{filled.model}/file"
    tag = filled.request("GET", url).headers["etag"]
    again = filled.request("GET", url, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


def test_downloads_leave_no_file(filled):
    places = filled.settings.data_dir, Path("/proc/self/fd")
    before = [len(list(place.iterdir())) for place in places]
    for headers in ({}, {"Range": "bytes=0-3"}, {"Range": "bytes=99999999-"}, {"Range": "lines=1-2"}):
        filled.request("GET", f"/v1/models/{filled.model}/file", headers=headers)
    assert [len(list(place.iterdir())) for place in places] == before


def test_a_deleted_model_is_gone_and_its_job_stays(service):
    model = service.add_model(service.add_dataset("data"), some_model())
    url = f"/v1/models/{model}"
    assert service.request("POST", f"{url}/predict", content=TEXT).status_code == 200
    assert service.request("DELETE", url).status_code == 204
    assert not (service.settings.models / model).exists()
    for method, path in (("GET", ""), ("GET", "/file"), ("POST", "/predict"), ("DELETE", "")):
        check_problem(service.request(method, url + path, content=TEXT), "unknown_model", 404)
    assert service.request("GET", "/v1/models").json()["models"] == []
    (job,) = service.request("GET", "/v1/jobs").json()["jobs"]
    assert (job["state"], job["model_id"]) == ("succeeded", model)


@pytest.mark.parametrize("format_", ["pmml", "", "NPZ", "../w.npy"])
def test_a_format_that_is_none(filled, format_):
    response = filled.request("GET", f"/v1/models/{filled.model}/file", params={"format": format_})
    check_problem(response, "wrong_type", 422)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_predictions_are_the_predictors(filled, pack):
    headers = {"Content-Type": "text/libsvm"}
    response = filled.request("POST", f"/v1/models/{filled.model}/predict", content=pack(TEXT), headers=headers)
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    answer = response.json()
    (expected,) = Predictor(some_model()).predict_text([TEXT])
    assert [item["label"] for item in answer["predictions"]] == expected.labels.tolist()
    assert [item["decision_value"] for item in answer["predictions"]] == expected.decision_values.tolist()
    assert (answer["rows"], answer["unknown_features"]) == (4, 1)


def test_a_model_in_json_is_refused_with_what_to_take(filled):
    refused = filled.request("GET", f"/v1/models/{filled.model}/file?format=json")
    assert check_problem(refused, "wrong_type", 422)["hint"].startswith("Take npz")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"])
@pytest.mark.parametrize(
    "body",
    [
        b"1,0,0.5,0\n0,0,0,3\n",
        b"a;b;c;d\n1;0;0.5;0\n0;0;0;3\n",
        b"1\t0\t0.5\t0\n0\t0\t0\t3\n",
        b"0 1:1 3:0.5\n0 4:3\n",
        b' {"rows": [{"1": 1, "3": 0.5}, {"4": 3}]}',
        b'{"rows": [[1, 0, 0.5, 0], [0, 0, 0, 3]]}',
    ],
    ids=["csv", "semicolons", "tabs", "libsvm", "json", "arrays"],
)
def test_the_content_tells_what_a_type_does_not(filled, body, kind):
    url = f"/v1/models/{filled.model}/predict"
    expected = filled.request("POST", url, content=b"0 1:1 3:0.5\n0 4:3\n", headers={"Content-Type": "text/libsvm"})
    assert filled.request("POST", url, content=body, headers={"Content-Type": kind}).json() == expected.json()


def test_what_rows_cannot_be_is_told_without_a_type(filled):
    url = f"/v1/models/{filled.model}/predict"
    document = filled.request("POST", url, content=b"%PDF-1.7\n1 0 obj\n")
    assert "PDF" in check_problem(document, "unknown_format", 415)["detail"]
    large = b'{"rows": [' + b"{}," * (1 << 19) + b"{}]}"
    check_problem(filled.request("POST", url, content=large), "body_too_large", 413)


def test_a_pair_at_the_beginning_of_a_row_is_no_label_with_a_weight(filled):
    rows = {"content": b"1:1 3:0.5\n", "headers": {"Content-Type": "text/libsvm"}}
    found = check_problem(filled.request("POST", f"/v1/models/{filled.model}/predict", **rows), "bad_label", 422)
    assert found["at"]["line"] == 1


def test_a_decimal_comma_and_another_encoding_are_options_as_of_uploads(filled):
    url = f"/v1/models/{filled.model}/predict?decimal=comma&encoding=windows-1252&delimiter=;&header=yes"
    body = "größe;b;c;d\n1,5;0;0,5;0\n".encode("cp1252")
    kind = {"Content-Type": "text/csv"}
    expected = filled.request("POST", f"/v1/models/{filled.model}/predict", json={"rows": [[1.5, 0, 0.5, 0]]})
    found = filled.request("POST", url, content=body, headers=kind)
    assert found.json()["predictions"] == expected.json()["predictions"]


def test_the_answer_comes_as_it_is_accepted(filled):
    def answer(kind):
        response = filled.request("POST", f"/v1/models/{filled.model}/predict", content=TEXT, headers={"Accept": kind})
        assert (response.headers["rows"], response.headers["unknown-features"]) == ("4", "1")
        assert response.headers["content-type"].startswith("application/json" if kind == "*/*" else kind)
        return response.text

    predictions = json.loads(answer("*/*"))["predictions"]
    assert json.loads(answer("application/json"))["predictions"] == predictions
    assert [json.loads(line) for line in answer("application/x-ndjson").splitlines()] == predictions
    table = list(csv.DictReader(io.StringIO(answer("text/csv"))))
    assert [{name: float(value) for name, value in row.items()} for row in table] == predictions
    assert answer("text/plain").splitlines() == [f"{row['label']:g}" for row in predictions]


def test_bodies_that_never_end_do_not_hold_up_others(filled):
    url = f"/v1/models/{filled.model}/predict"

    async def run():
        ends = asyncio.Event()

        async def slow(first):
            yield first
            await ends.wait()

        transport = httpx.ASGITransport(filled.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            bodies = [slow(b"1 1:1\n" * rows) for rows in (1, 12_000) for _ in range(50)]
            waiting = [asyncio.create_task(client.post(url, content=body)) for body in bodies]
            await asyncio.sleep(0.2)
            answer = await asyncio.wait_for(client.post(url, content=TEXT), PATIENCE_SECONDS)
            assert not any(task.done() for task in waiting)
            ends.set()
            return answer, await asyncio.gather(*waiting)

    answer, others = asyncio.run(run())
    assert answer.json()["rows"] == 4
    assert [other.json()["rows"] for other in others] == [1] * 50 + [12_000] * 50


def test_a_full_disk_is_told_and_costs_only_this_request(tmp_path):
    service, free = Service(tmp_path), [0]
    model = service.add_model(service.add_dataset("data"), some_model())
    context = service.app.state.context
    service.app.state.context = replace(context, room=Room(tmp_path, 1 << 40, lambda _: free[0]))
    for method, path in (("GET", "/file"), ("POST", "/predict")):
        response = service.request(method, f"/v1/models/{model}{path}", content=TEXT)
        check_problem(response, "out_of_space", 507)
    free[0] = 1 << 20
    assert service.request("POST", f"/v1/models/{model}/predict", content=TEXT).status_code == 200


def test_a_body_of_rows_that_is_too_large(tmp_path):
    service = Service(tmp_path, max_predict_bytes=1000)
    model = service.add_model(service.add_dataset("data"), some_model())
    for body, code in ((b"1 1:1\n" * 200, "body_too_large"), (gzip.compress(b"1\n" * 999), "decompressed_too_large")):
        check_problem(service.request("POST", f"/v1/models/{model}/predict", content=body), code, 413)


@pytest.mark.parametrize(
    ("content", "kind"), [(b"1 0:2\n", "text/libsvm"), (b'{"rows":[{"0":2}]}', "application/json")]
)
def test_rows_may_count_from_elsewhere_than_the_model(filled, content, kind):
    path, headers = f"/v1/models/{filled.model}/predict", {"content-type": kind}
    assert (
        "index_base=0"
        in check_problem(filled.request("POST", path, content=content, headers=headers), "index_zero", 422)["hint"]
    )
    moved = filled.request("POST", f"{path}?index_base=0", content=content, headers=headers).json()
    own = filled.request("POST", path, content=content.replace(b"0", b"1", 1), headers=headers).json()
    assert moved == own


def test_a_fault_after_many_good_rows_is_a_problem_and_no_half_answer(filled):
    body = b"1 1:1 2:0.5\n" * 300_000 + b"1 1:nan\n"
    found = check_problem(
        filled.request("POST", f"/v1/models/{filled.model}/predict", content=body), "value_not_finite"
    )
    assert found["at"]["line"] == 300_001


@pytest.mark.parametrize("path", ["", "/file", "/file?format=npz"])
@pytest.mark.parametrize("model", ["mdl_0", "..", "%00"])
def test_unknown_models(filled, model, path):
    response = filled.request("GET", f"/v1/models/{model}{path}")
    assert response.status_code == 404
    check_problem(response, response.json()["code"])


def test_damaged_weights_are_never_given_out(service):
    model = service.add_model(service.add_dataset("data"), some_model())
    path = service.settings.models / model / "w.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    check_problem(service.request("GET", f"/v1/models/{model}/file"), "corrupt_data", 500)
    check_problem(service.request("POST", f"/v1/models/{model}/predict", content=TEXT), "corrupt_data", 500)
    # What a model says of itself is read without them.
    assert service.request("GET", f"/v1/models/{model}").status_code == 200
    path.write_bytes(b"no array")
    check_problem(service.request("GET", f"/v1/models/{model}"), "corrupt_data", 500)


@pytest.mark.parametrize("what", ["directory", "weights", "record", "a file in its place"])
def test_a_model_whose_files_are_gone_says_so_and_hides_no_other(tmp_path, what):
    service = Service(tmp_path)
    dataset = service.add_dataset("data")
    gone, other = (service.add_model(dataset, some_model()) for _ in range(2))
    directory = service.settings.models / gone
    if what in ("weights", "record"):
        next(path for path in directory.iterdir() if (path.suffix == ".npy") == (what == "weights")).unlink()
    else:
        shutil.rmtree(directory)
        if what != "directory":
            directory.touch()
    rows = {"content": TEXT, "headers": {"content-type": "text/plain"}}
    named = {"json": {"dataset": "data"}}
    for method, path, body in (
        ("GET", "/v1/models/{}", {}),
        ("GET", "/v1/models/{}/file", {}),
        ("POST", "/v1/models/{}/predict", rows),
        ("POST", "/v1/models/{}/evaluate", named),
    ):
        found = check_problem(service.request(method, path.format(gone), **body), "corrupt_data", 500)
        assert "missing" in found["detail"] and found["hint"]
        assert service.request(method, path.format(other), **body).status_code == 200, path
    page = service.request("GET", f"/models/{gone}")
    assert page.status_code == 404 and "missing" in page.text
    for path in ("/v1/models", "/", "/metrics", f"/models/{other}"):
        assert service.request("GET", path).status_code == 200
    assert service.request("DELETE", f"/v1/models/{gone}").status_code == 204
    assert [model["id"] for model in service.request("GET", "/v1/models").json()["models"]] == [other]


def test_predictions_are_explained(service):
    model = Model(np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.5]]), ("a", "b", "c"), 1, mean=np.array([1.0, 0.5]))
    path = f"/v1/models/{service.add_model(service.add_dataset('data'), model)}/predict?explain=2"
    rows = {"rows": [[3, 0], [0, 1]]}
    found = service.request("POST", path, json=rows).json()
    assert found["against"] == "mean" and found["predictions"] == [
        {"label": "a", "decision_value": [3, 0, -3], "base_value": 1, "contributions": {"1": 2}},
        {"label": "b", "decision_value": [0, 2, 0.5], "base_value": 1, "contributions": {"2": 1}},
    ]
    table = service.request("POST", path, json=rows, headers={"Accept": "text/csv"})
    assert table.headers["against"] == "mean"
    assert table.text.splitlines()[0].endswith(",base_value,contributions") and '{""1"": 2.0}' in table.text
    # Compressed, a process of its own reads them.
    packed = gzip.compress(b"0 1:3\n0 2:1\n")
    assert service.request("POST", path, content=packed).json()["predictions"] == found["predictions"]
    many = service.request("POST", path, content=b"0 1:3\n" * 1001)
    assert (many.status_code, many.json()["code"]) == (413, "too_many_rows") and many.json()["hint"]
    assert service.request("POST", path.replace("=2", "=101"), json=rows).status_code == 422


def test_predictions_of_kernels_are_not_explained(service):
    vectors = SupportVectors(0.5, 4, np.array([0, 1]), np.array([1], np.int32), np.ones(1, np.float32))
    model = service.add_model(service.add_dataset("data"), Model(np.ones(1), (1.0, -1.0), 1, vectors=vectors))
    answer = service.request("POST", f"/v1/models/{model}/predict?explain=2", content=b"0 1:3\n")
    assert (answer.status_code, answer.json()["code"]) == (422, "no_contributions") and answer.json()["hint"]
