"""Jobs on a dataset whose upload is under way, and `streamsvm train` while its file is being read in."""

import json
import threading
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from scipy import sparse

from tests.contracts.problems import libsvm_text
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PATIENCE_SECONDS, wait_for
from tests.reference.liblinear import train

pytestmark = pytest.mark.usefixtures("nothing_is_left")
SPEC = {"cache_bytes": 1 << 17, "tolerance": None, "relative_gap": 1e-3}


class Upload:
    """A PUT that has sent the first part; `send_rest` ends it and returns the response."""

    def __init__(self, service, name, first, rest):
        self._url, self._first, self._rest = f"{service.url}/v1/datasets/{name}", first, rest
        self._go_on = threading.Event()
        self._thread = threading.Thread(target=self._put)
        self._thread.start()
        self._response = None
        wait_for(lambda: service.processes.alive("streamsvm.reader.ingest"))

    def send_rest(self):
        self._go_on.set()
        self._thread.join(PATIENCE_SECONDS)
        return self._response

    def _put(self):
        self._response = httpx.put(self._url, content=self._parts(), timeout=PATIENCE_SECONDS)

    def _parts(self):
        yield self._first
        self._go_on.wait(PATIENCE_SECONDS)
        yield self._rest


@contextmanager
def uploading(service, name, first, rest):
    upload = Upload(service, name, first, rest)
    try:
        yield upload
    finally:
        upload.send_rest()


def halves(text):
    cut = text.index(b"\n", len(text) // 2) + 1
    return text[:cut], text[cut:]


def wait_until_it_follows(service, job):
    wait_for(lambda: len(service.processes.alive(".process ")) == 2)
    wait_for(lambda: (shown := service.job(job))["state"] == "running" and shown["progress"])


def test_a_job_follows_an_upload(service, text):
    with uploading(service, "followed", *halves(text)) as upload:
        job = service.submit(dataset="followed", **SPEC)
        wait_until_it_follows(service, job)
        shown = service.job(job)
        assert shown["progress"]["blocks"] is None and shown["progress"]["rows_streamed"] == 0
        assert service.get("/v1/datasets/followed")["state"] == "ingesting"
        assert upload.send_rest().status_code == 201
    done = [service.wait_until_ended(job), service.wait_until_ended(service.submit(dataset="data", **SPEC))]
    assert [(one["state"], one["attempt"]) for one in done] == [("succeeded", 1)] * 2
    wait_for(lambda: service.run_directories() == [])
    followed, ready = (one["result"]["certificate"] for one in done)
    for certificate in (followed, ready):
        assert certificate["relative_duality_gap"] <= 1.5e-3
    # Each bounds the other's.
    assert followed["dual_objective"] <= ready["primal_objective"]
    assert ready["dual_objective"] <= followed["primal_objective"]
    assert done[0]["progress"]["blocks"] == service.get("/v1/datasets/followed")["blocks"]
    lengths = {len(weights(service.model(one))) for one in done}
    assert len(lengths) == 1


def test_an_upload_that_turns_out_bad_fails_the_job(service, text):
    before = set(service.data_dir.glob("datasets/*"))
    first, rest = halves(text)
    with uploading(service, "bad", first, rest + b"1 1:x\n") as upload:
        job = service.submit(dataset="bad", **SPEC)
        wait_until_it_follows(service, job)
        response = upload.send_rest()
    assert (response.status_code // 100, response.json()["code"]) == (4, "bad_number")
    assert response.json()["at"]["line"] == 3001
    failed = service.wait_until_ended(job)
    assert (failed["state"], failed["failure"]["code"]) == ("failed", "dataset_lost")
    assert "upload" in failed["failure"]["hint"] and "Traceback" not in failed["failure"]["log_tail"]
    assert failed["model_id"] is None
    wait_for(lambda: not service.processes.alive(".process "))
    wait_for(lambda: service.run_directories() == [])
    assert set(service.data_dir.glob("datasets/*")) == before and not set(service.data_dir.glob("datasets/.*"))


@pytest.mark.parametrize(("labels", "code"), [((1,), "single_class"), (range(200), "too_many_classes")])
def test_classes_that_do_not_suit_fail_the_job(service, labels, code):
    """Which shows when the dataset is complete; later jobs are refused at once."""
    text = b"".join(b"%d 1:1 2:%d\n" % (labels[k % len(labels)], k % 7) for k in range(300))
    with uploading(service, code.replace("_", "-"), *halves(text)) as upload:
        job = service.submit(dataset=code.replace("_", "-"), **SPEC)
        wait_until_it_follows(service, job)
        assert upload.send_rest().status_code == 201
    failed = service.wait_until_ended(job)
    assert (failed["state"], failed["failure"]["code"]) == ("failed", code)
    wait_for(lambda: service.run_directories() == [])
    body = {"dataset": code.replace("_", "-"), **SPEC}
    assert httpx.post(f"{service.url}/v1/jobs", json=body).json()["code"] == code


def test_the_command_trains_though_the_last_row_is_very_long(processes, problem, text, tmp_path):
    """Longer than the segments a small cache was divided into before that was known."""
    X, y = problem
    X = sparse.hstack([X, sparse.csr_matrix((len(y), 3000 - X.shape[1]))])
    X, y = sparse.csr_matrix(sparse.vstack([X, np.full((1, 3000), 0.01)])), np.append(y, 1.0)
    last = libsvm_text(X[-1], y[-1:])
    done = processes.run(
        "train", "-", "--cache", "1MiB", "--tolerance", "0.01", "--json", "-o", tmp_path / "m", input=text + last
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])["result"]
    assert result["converged"]
    primal = result["certificate"]["primal_objective"]
    assert primal == pytest.approx(train(X, y, 1.0, eps=1e-3, bias=1.0).primal, rel=1e-3)
