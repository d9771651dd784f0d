"""Datasets that change, and that come from the import directory, in a running service."""

import signal
import socket

import httpx
import pytest

from tests.end_to_end.service import Service, wait_for


def shown(service: Service, name: str) -> dict:
    return service.get(f"/v1/datasets/{name}")


def test_a_client_that_leaves_while_it_adds_rows_leaves_nothing(service, text):
    service.upload("grown", text)
    before = shown(service, "grown")
    port = int(service.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = f"POST /v1/datasets/grown/blocks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {10 * len(text)}\r\n\r\n"
        client.sendall(head.encode() + text)
        wait_for(lambda: service.processes.alive("streamsvm.reader.ingest"))
        assert shown(service, "grown")["state"] == "changing"
    wait_for(lambda: shown(service, "grown") == before, 10)
    assert not service.processes.alive("streamsvm.reader.ingest")
    assert not set(service.data_dir.glob("datasets/.*"))


@pytest.mark.parametrize("head", [b"PAR1", b"PK\x03\x04"])
def test_a_client_that_leaves_inside_a_file_that_is_kept_first_leaves_nothing(service, text, head):
    port = int(service.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as client:
        start = f"PUT /v1/datasets/left HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {10 * len(text)}\r\n\r\n"
        client.sendall(start.encode() + head + text)
        wait_for(lambda: set(service.data_dir.glob("datasets/.*")))
    wait_for(lambda: httpx.get(f"{service.url}/v1/datasets/left").status_code == 404, 10)
    assert not set(service.data_dir.glob("datasets/.*"))


def test_an_import_survives_a_kill_and_a_job_follows_it(new_service, tmp_path, text):
    (tmp_path / "import").mkdir()
    with (tmp_path / "import" / "large.svm").open("wb") as file:
        for _ in range(20):
            file.write(text)
    service: Service = new_service(import_dir=tmp_path / "import").start()
    answer = httpx.put(f"{service.url}/v1/datasets/imported?import=large.svm")
    assert answer.status_code == 202
    job = service.submit(dataset="imported", max_passes=2)
    wait_for(lambda: service.processes.alive("streamsvm.reader.ingest"))
    service.signal(signal.SIGKILL)
    service.wait(5)
    wait_for(lambda: not service.processes.alive(), 5)
    service.start()
    assert wait_for(lambda: (found := shown(service, "imported"))["state"] == "ready" and found)["rows"] == 20 * 3000
    assert service.wait_until_ended(job)["state"] == "succeeded"
