"""Requests of a client, at a service that takes longer for its answer than clients wait for most."""

import io
import socket
from contextlib import closing, suppress
from threading import Event, Thread

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.remote import connection
from streamsvm.service.remote.connection import Connection
from tests.refusals import refused

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"rows":1}'


class Pipe(io.BytesIO):
    """Bytes that nobody can seek in."""

    def seekable(self) -> bool:
        return False


@pytest.fixture
def slow(monkeypatch):
    """A connection to a service that reads a request, and answers after ten times as long as clients wait for most."""
    monkeypatch.setattr(connection, "_TIMEOUT_SECONDS", 0.05)
    has_gone = Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            with listener.accept()[0] as client, suppress(OSError):
                client.recv(1 << 16)
                has_gone.wait(0.5)
                client.sendall(ANSWER)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield Connection(f"http://127.0.0.1:{listener.getsockname()[1]}", retries=0)
        has_gone.set()
        thread.join(30)


def test_data_from_a_pipe_wait_for_their_answer(slow):
    assert slow.upload("/v1/datasets/d", Pipe(b"1 1:1\n")) == {"rows": 1}


def test_rows_to_predict_wait_for_their_answer(slow):
    assert slow.post("/v1/models/m/predict", lambda: [b"1 1:1\n"], "text/libsvm") == {"rows": 1}


def test_a_download_waits_for_its_answer(slow):
    target = io.BytesIO()
    slow.download("/v1/models/m/file", target)
    assert target.getvalue() == b'{"rows":1}'


def test_other_requests_do_not_wait(slow):
    with refused(ServiceError, "no_service"):
        slow.json("GET", "/v1/jobs")


def test_a_service_that_is_not_there_is_told_at_once():
    with refused(ServiceError, "no_service"):
        Connection("http://127.0.0.1:1", retries=0).upload("/v1/datasets/d", Pipe(b"1 1:1\n"))
