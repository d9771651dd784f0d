"""A running service and its clients: the session of the documentation, typed with the real curl."""

import json
import shutil
import subprocess

import pytest

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not available")


def curl(*arguments: object, body: bytes = b"") -> subprocess.CompletedProcess:
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_SECONDS), *map(str, arguments)]
    return subprocess.run(command, input=body, capture_output=True, check=True, timeout=PATIENCE_SECONDS)


def curl_json(*arguments: object, body: bytes = b""):
    return json.loads(curl(*arguments, body=body).stdout)


def test_a_running_job_shows_what_it_does_and_its_trainer_never_waits(service):
    job = service.submit(**{**ENDLESS, "pace": "adaptive", "solver_options": {"spill": False}, "max_seconds": 3.0})
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


def test_one_service_and_one_worker_for_a_data_directory(service, text):
    worker = service.processes.run("worker", "--data-dir", service.data_dir)
    assert worker.returncode == 5 and b"another worker" in worker.stderr
    serve = service.processes.run("serve", "--port", "0", "--data-dir", service.data_dir)
    assert serve.returncode == 5 and b"another api" in serve.stderr
    assert len(service.processes.alive("streamsvm.service.processes.worker")) == 1
    service.train(dataset="data", max_passes=2, cache_bytes=ENDLESS["cache_bytes"])
