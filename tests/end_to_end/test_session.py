"""A running service and its clients: the session of the documentation, typed with the real curl."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PATIENCE_SECONDS, wait_for
from tests.reference.liblinear import liblinear_predict, train

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not available")


def curl(*arguments: object, body: bytes = b"") -> subprocess.CompletedProcess:
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_SECONDS), *map(str, arguments)]
    return subprocess.run(command, input=body, capture_output=True, check=True, timeout=PATIENCE_SECONDS)


def curl_json(*arguments: object, body: bytes = b""):
    return json.loads(curl(*arguments, body=body).stdout)


def test_the_session(service, problem, text, tmp_path):
    X, y = problem
    U = service.url
    (tmp_path / "train.svm").write_bytes(text)
    uploaded = curl_json("-T", tmp_path / "train.svm", f"{U}/v1/datasets/session?format=libsvm")
    assert uploaded["rows"] == X.shape[0] and uploaded["non_zeros"] == X.nnz

    body = '{"dataset":"session","C":1,"tolerance":1e-3,"cache_bytes":268435456}'
    answer = curl("--dump-header", "-", "--json", body, f"{U}/v1/jobs").stdout.decode()
    head, _, shown = answer.partition("\r\n\r\n")
    job = json.loads(shown)
    assert " 202 " in head.splitlines()[0] and f"location: /v1/jobs/{job['id']}" in head

    ended = wait_for(lambda: (shown := curl_json(f"{U}/v1/jobs/{job['id']}"))["state"] == "succeeded" and shown)
    assert [step["state"] for step in ended["transitions"]] == ["queued", "running", "succeeded"]
    # What the last pass met, at a moving w and in several sweeps, may have been more.
    assert ended["result"]["converged"] and ended["result"]["certificate"]["gap"] <= 1e-3
    assert ended["progress"]["gap"] <= 1e-1 and ended["progress"]["eta_seconds"] == 0
    assert ended["progress"]["m_plus"] - ended["progress"]["m_minus"] == ended["progress"]["gap"]

    passes = curl_json(f"{U}/v1/jobs/{job['id']}/history")["passes"]
    assert [record["pass"] for record in passes] == list(range(1, ended["result"]["passes"] + 1))
    for record in passes:
        assert record["dual_objective"] <= record["primal_bound"] * (1 + 1e-12)
    certificate = ended["result"]["certificate"]
    assert certificate["primal_objective"] == pytest.approx(train(X, y, 1.0, eps=1e-4, bias=1.0).primal, rel=1e-4)

    model = f"{U}/v1/models/{ended['model_id']}"
    assert curl_json(model)["certificate"] == certificate
    curl("-o", tmp_path / "rcv1.model", f"{model}/file?format=liblinear")
    curl("-o", tmp_path / "rcv1.npz", f"{model}/file?format=npz")
    with np.load(tmp_path / "rcv1.npz") as arrays:
        assert np.where(X @ arrays["w"] + arrays["intercept"] > 0, *arrays["labels"]).tolist()

    labels, decision_values = liblinear_predict(tmp_path / "rcv1.model", X)
    content = ("-H", "Content-Type: text/libsvm", "--data-binary", "@-")
    predicted = curl_json(*content, f"{model}/predict", body=text)
    assert predicted["rows"] == X.shape[0] and predicted["unknown_features"] == 0
    assert [row["label"] for row in predicted["predictions"]] == labels.tolist()
    found = [row["decision_value"] for row in predicted["predictions"]]
    np.testing.assert_allclose(found, decision_values, rtol=1e-9, atol=1e-12)
    assert curl_json(*content, f"{model}/predict", body=b"0 3:0.5 17:1.2\n")["rows"] == 1


def test_two_jobs_run_and_one_waits_and_a_fixed_pace_makes_the_same_model_every_time(service):
    first, second, third = (service.submit(**{**ENDLESS, "max_passes": 5, "seed": 3}) for _ in range(3))
    done = [service.wait_until_ended(job) for job in (first, second, third)]
    assert done[1]["started_at"] < done[0]["finished_at"]
    assert min(job["finished_at"] for job in done[:2]) <= done[2]["started_at"]
    assert [job["result"]["stop_reason"] for job in done] == 3 * ["max_passes"]
    assert not done[0]["result"]["converged"]
    assert len({service.model(job, "liblinear") for job in done}) == 1


def test_a_running_job_shows_what_it_does_and_its_trainer_never_waits(service):
    job = service.submit(**{**ENDLESS, "pace": "adaptive", "solver_options": {"spill": False}, "max_seconds": 5.0})
    early = service.wait_for_pass(job, 2)
    late = service.wait_for_pass(job, early["progress"]["pass"] + 2)
    assert (early["state"], early["phase"]) == ("running", "training")
    for counted in ("rows_streamed", "evicted_rows", "read_bytes", "elapsed_seconds"):
        assert 0 < early["progress"][counted] < late["progress"][counted]
    assert 0 < late["progress"]["resident_bytes"] <= ENDLESS["cache_bytes"]
    assert 0 < late["progress"]["resident_rows"] < 3000
    assert service.wait_until_ended(job)["state"] == "succeeded"
    wait_for(lambda: service.run_directories() == [])
    passes = service.get(f"/v1/jobs/{job}/history")["passes"]
    # The adaptive pace: it waits for the first step and for no other.
    waited = passes[-1]["trainer_wait_seconds"] - passes[0]["trainer_wait_seconds"]
    elapsed = passes[-1]["elapsed_seconds"] - passes[0]["elapsed_seconds"]
    assert elapsed > 0.5 and waited < 0.1 * elapsed


def test_the_reason_reaches_a_client_that_is_still_sending(service, text, tmp_path):
    long = tmp_path / "long.svm"
    with long.open("wb") as file:
        file.write(b"1 1:x\n")
        file.write(text * (40 * 2**20 // len(text)))
    refused = curl_json("-T", long, f"{service.url}/v1/datasets/refused")
    assert (refused["code"], refused["at"]["line"]) == ("bad_number", 1)
    with long.open("wb") as file:
        file.truncate(65 << 20)
    assert curl_json("-T", long, f"{service.url}/v1/datasets/refused")["code"] == "body_too_large"
    chunked = ("-H", "Transfer-Encoding: chunked")
    with long.open("wb") as file:
        file.write(text * (65 * 2**20 // len(text)))
    assert curl_json(*chunked, "-T", long, f"{service.url}/v1/datasets/refused")["code"] == "body_too_large"


@pytest.mark.parametrize("name", ["..", ".", "../..", "..%2f..%2fx", "%00", "A"])
def test_wrong_names_as_they_are_typed(service, text, name):
    url = f"{service.url}/v1/datasets/{name}"
    assert curl_json("--path-as-is", "-T", "-", url, body=text)["code"] == "name_invalid"


def test_one_service_and_one_worker_for_a_data_directory(service, text):
    worker = service.processes.run("worker", "--data-dir", service.data_dir)
    assert worker.returncode == 5 and b"another worker" in worker.stderr
    serve = service.processes.run("serve", "--port", "0", "--data-dir", service.data_dir)
    assert serve.returncode == 5 and b"another api" in serve.stderr
    assert len(service.processes.alive("streamsvm.service.processes.worker")) == 1
    job = service.wait_until_ended(service.submit(dataset="data", max_passes=2, cache_bytes=ENDLESS["cache_bytes"]))
    assert job["state"] == "succeeded"


def test_a_service_beyond_this_machine_needs_a_token(processes, tmp_path):
    refused = processes.run("serve", "--host", "0.0.0.0", "--port", 0, "--data-dir", tmp_path)
    assert refused.returncode == 5
    assert b"needs a token" in refused.stderr and b"streamsvm token new" in refused.stderr
