"""Jobs and predictions that really run: stopped, cancelled, watched, side by side."""

import hashlib
import os
import signal
import socket
from pathlib import Path

import httpx

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PATIENCE_SECONDS, Service, wait_for

ROWS = 1_500_000
MOST_GROWTH_BYTES = 64 << 20


def post(service: Service, path: str) -> httpx.Response:
    return httpx.post(service.url + path, timeout=PATIENCE_SECONDS)


def test_after_a_cancel_no_trainer_runs_and_nothing_is_kept(service):
    job, beside, waiting = (service.submit(**ENDLESS) for _ in range(3))
    service.wait_for_pass(job, 1)
    models = service.get("/v1/models")
    assert post(service, f"/v1/jobs/{waiting}/cancel").json()["state"] == "cancelled"
    for running in (job, beside):
        assert post(service, f"/v1/jobs/{running}/cancel").status_code == 202
    wait_for(lambda: not service.processes.alive("streamsvm.trainer.process"), 5)
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["model_id"], ended["result"]) == ("cancelled", None, None)
    assert service.get("/v1/models") == models
    wait_for(lambda: service.run_directories() == [])
    assert service.job(waiting)["attempt"] == 0


def peak_bytes(pid: int) -> int:
    """The most memory a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def trained_model(service: Service) -> str:
    """A model's path."""
    job = service.train(**{**ENDLESS, "max_passes": 3})
    return f"{service.url}/v1/models/{job['model_id']}"


def test_predictions_take_memory_for_neither_rows_nor_answer(service):
    model = trained_model(service)
    line = b"0 1:0.25 7:-1.5 30:0.125 111:2 222:-0.0625 333:1 400:-0.75\n"
    api = service.processes.one("-m streamsvm.api")
    warm = httpx.post(f"{model}/predict", content=line)
    first = warm.json()["predictions"][0]
    piece = line * 10_000
    assert ROWS * len(line) > MOST_GROWTH_BYTES
    before, found, expected = peak_bytes(api), hashlib.sha256(), hashlib.sha256(b"label,decision_value\r\n")
    expected.update(f"{first['label']:g},{first['decision_value']!r}\r\n".encode() * ROWS)
    body = (piece for _ in range(ROWS // 10_000))
    accept = {"Accept": "text/csv", "Content-Type": "text/libsvm"}
    with httpx.stream("POST", f"{model}/predict", content=body, headers=accept, timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["rows"] == str(ROWS)
        for part in answer.iter_bytes():
            found.update(part)
    assert found.digest() == expected.digest()
    assert peak_bytes(api) - before < MOST_GROWTH_BYTES


def test_an_evaluation_nobody_waits_for_ends(service):
    path = trained_model(service).removeprefix(service.url)
    port = int(service.url.rsplit(":", 1)[1])
    body = b'{"dataset":"data"}'
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = f"POST {path}/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        evaluation = service.processes.one("streamsvm.service.models.evaluation.evaluation")
        # It would end by itself; so it cannot.
        os.kill(evaluation, signal.SIGSTOP)
    wait_for(lambda: not service.processes.alive("streamsvm.service.models.evaluation.evaluation"))
    assert httpx.post(f"{service.url}{path}/evaluate", json={"dataset": "data"}, timeout=PATIENCE_SECONDS).is_success
