"""Clients that leave, however they do it, leave nothing behind: no slot, no process, no file, no thread at work."""

import gzip
import io
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event

import pytest

from streamsvm.api.requests import deadlines
from streamsvm.service.datasets import uploads
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.predicting.predictor import Prediction, Predictor
from streamsvm.service.remote.connection import Connection
from streamsvm.service.shares import Shares
from tests.api.app import Service, some_model
from tests.api.server import RunningServer, is_closed, read_answer, request
from tests.end_to_end.service import wait_for

ROWS = b"1 1:1\n-1 2:1\n"
LONG = gzip.compress(ROWS * 8_000_000, 1)  # a minute of reading
CHUNKED = {"Transfer_Encoding": "chunked"}
WATCHFUL = {"header": 2.0}  # connections are looked at four times a second


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path, max_uploads=16)


@pytest.fixture
def server(service):
    with RunningServer(service, **WATCHFUL) as running:
        yield running


def ingests(service: Service) -> list[int]:
    """Processes that read something into this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"streamsvm.reader.ingest.run" in command and bytes(service.settings.data_dir) in command:
                found.append(int(entry.name))
    return found


def nothing_is_left(service: Service) -> bool:
    return not (service.store.datasets() or list(service.settings.datasets.iterdir()) or ingests(service))


def at_work(service: Service) -> int:
    shared = service.app.state.context.shared
    return shared.predictions.in_use + shared.open.in_use


def head(name: str, length: int, **headers: str) -> bytes:
    return request("PUT", f"/v1/datasets/{name}", Content_Length=str(length), **headers)


def chunked_head(name: str) -> bytes:
    return head(name, 0, **CHUNKED).replace(b"Content-Length: 0\r\n", b"")


def reset(client: socket.socket) -> None:
    """Reset the connection instead of closing it."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


WAYS: dict[str, tuple[bytes, Callable[[socket.socket], None]]] = {
    "before-any": (head("a", 5000), socket.socket.close),
    "within": (head("b", 5000) + ROWS, socket.socket.close),
    "chunked": (chunked_head("c") + b"d\r\n" + ROWS + b"\r\n5", socket.socket.close),
    "half-closed": (head("d", 5000) + ROWS, half_close),
    "reset": (head("e", 5000) + ROWS, reset),
    "kept-first": (head("h", 5000) + b"PAR1" + ROWS, socket.socket.close),
    "archive": (head("i", 5000) + b"PK\x03\x04" + ROWS, socket.socket.close),
    "all-of-it-sent": (head("f", len(LONG)) + LONG, socket.socket.close),
    "all-and-more-sent": (head("g", len(LONG)) + LONG + b"GET / HTTP/1.1\r\n", reset),
}


def test_uploads_end_with_their_clients(service, server):
    with ExitStack() as stack:
        clients = {way: stack.enter_context(closing(server.connect())) for way in WAYS}
        for way, (data, _) in WAYS.items():
            clients[way].sendall(data)
        wait_for(lambda: len(ingests(service)) == len(WAYS))
        for way, (_, leave) in WAYS.items():
            leave(clients[way])
        wait_for(lambda: nothing_is_left(service), 60)
    assert service.request("PUT", "/v1/datasets/a", content=ROWS).status_code == 201


def fill(client: socket.socket, server: RunningServer) -> None:
    """Send until the service reads no more."""
    (connection,) = server.server.server_state.connections
    paused = 0
    while paused < 3:
        client.sendall(bytes(1 << 14))
        time.sleep(0.01)
        paused = paused + 1 if connection.flow.read_paused else 0


@pytest.mark.parametrize("leave", [half_close, reset])  # a client that closes looks like the first
def test_an_upload_whose_process_is_behind_ends_with_its_client(service, server, leave):
    with closing(server.connect()) as client:
        client.sendall(head("behind", 1 << 30))
        (pid,) = wait_for(lambda: ingests(service), 30)
        os.kill(pid, signal.SIGSTOP)
        fill(client, server)
        leave(client)
        wait_for(lambda: nothing_is_left(service), 30)


def test_a_process_that_takes_nothing_is_given_up(tmp_path):
    service = Service(tmp_path, stall_seconds=1.0)
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(head("stopped", 1 << 30))
        (pid,) = wait_for(lambda: ingests(service), 30)
        os.kill(pid, signal.SIGSTOP)
        fill(client, server)
        assert json.loads(read_answer(client)[1])["code"] == "ingest_failed"
        assert nothing_is_left(service)


def test_rows_that_are_being_added_go_with_their_client(service, server):
    service.add_dataset("d")
    before = service.request("GET", "/v1/datasets/d").json()
    with closing(server.connect()) as client:
        client.sendall(request("POST", "/v1/datasets/d/blocks", Content_Length="5000") + ROWS)
        wait_for(lambda: ingests(service), 30)
        assert service.request("GET", "/v1/datasets/d").json()["state"] == "changing"
    wait_for(lambda: service.request("GET", "/v1/datasets/d").json() == before and not ingests(service), 30)
    assert [path.name[0] for path in service.settings.datasets.iterdir()] == ["d"]


def test_rows_that_are_being_added_go_with_their_dataset(service, server):
    service.add_dataset("d")
    with closing(server.connect()) as client:
        client.sendall(request("POST", "/v1/datasets/d/blocks", Content_Length="5000") + ROWS)
        wait_for(lambda: ingests(service), 30)
        assert server.answer(request("DELETE", "/v1/datasets/d"))[0].startswith(b"HTTP/1.1 204 ")
        assert nothing_is_left(service)


def test_an_upload_that_comes_too_slowly_makes_room_for_another(tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "_LATE_SECONDS", 0.0)
    service = Service(tmp_path, max_uploads=1)
    with RunningServer(service) as server, closing(server.connect()) as slow:
        slow.sendall(head("slow", 50_000) + b"1 1:1\n" * 400)  # enough for 5 seconds at the least rate of all bodies
        wait_for(lambda: ingests(service), 30)
        time.sleep(0.5)
        answer, _ = server.answer(head("other", len(ROWS)) + ROWS)
        assert answer.startswith(b"HTTP/1.1 201 ")
        answer, body = read_answer(slow)
        assert answer.startswith(b"HTTP/1.1 408 ") and json.loads(body)["code"] == "too_slow"
    assert [record["name"] for record in service.store.datasets()] == ["other"]


def test_bodies_that_do_not_get_on_take_no_turns(service, server):
    model = service.add_model(service.add_dataset("data"), some_model())
    path, rows = f"/v1/models/{model}/predict", ROWS * 10_000
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(closing(server.connect()))
            client.sendall(request("POST", path, rows, Content_Type="text/libsvm", Content_Length="1000000"))
        wait_for(lambda: service.app.state.context.shared.open.in_use == 20, 30)
        answer, _ = server.answer(request("POST", path, rows, Content_Type="text/libsvm"))
        assert answer.startswith(b"HTTP/1.1 200 ")
    wait_for(lambda: not service.app.state.context.shared.open.in_use, 30)


@pytest.mark.parametrize(
    ("limit", "path", "kind", "body"),
    [
        ("body_bytes", "/v1/jobs", "application/json", b'{"dataset":"data"' + b" " * 100_000 + b"}"),
        ("open", "/v1/models/{}/predict", "application/json", b'{"rows":[{"1":1}]' + b" " * 100_000 + b"}"),
        ("open", "/v1/models/{}/predict", "text/libsvm", ROWS * 10_000),
    ],
)
def test_a_slow_body_gives_way_to_another_and_a_short_one_waits_for_neither(
    service, server, monkeypatch, limit, path, kind, body
):
    monkeypatch.setattr(deadlines, "SECONDS", 0.2)
    monkeypatch.setattr(deadlines, "_LOOK_SECONDS", 0.05)
    model, shared = service.add_model(service.add_dataset("data"), some_model()), service.app.state.context.shared
    shares = Shares(1)
    object.__setattr__(shared, limit, shares)
    path, predict = path.format(model), f"/v1/models/{model}/predict"
    with closing(server.connect()) as slow:
        slow.sendall(request("POST", path, body[:70_000], Content_Type=kind, Content_Length=str(len(body))))
        wait_for(lambda: shares.in_use, 30)
        short, _ = server.answer(request("POST", predict, b'{"rows":[{"1":1}]}', Content_Type="application/json"))
        assert short.startswith(b"HTTP/1.1 200 ") and shares.in_use
        other, _ = server.answer(request("POST", path, body, Content_Type=kind))
        assert other.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 202 "))
        answer, told = read_answer(slow)
        assert answer.startswith(b"HTTP/1.1 408 ") and json.loads(told)["code"] == "too_slow"


def test_a_slow_body_that_nobody_waits_for_is_read(service, server, monkeypatch):
    monkeypatch.setattr(deadlines, "SECONDS", 0.05)
    monkeypatch.setattr(deadlines, "_LOOK_SECONDS", 0.01)
    model, body = service.add_model(service.add_dataset("data"), some_model()), ROWS * 10_000
    with closing(server.connect()) as slow:
        slow.sendall(request("POST", f"/v1/models/{model}/predict", body[:70_000], Content_Length=str(len(body))))
        wait_for(lambda: service.app.state.context.shared.open.in_use, 30)
        time.sleep(0.3)  # longer than others would have waited
        slow.sendall(body[70_000:])
        assert read_answer(slow)[0].startswith(b"HTTP/1.1 200 ")


def test_a_record_that_an_upload_left_holds_no_slot_and_can_be_deleted(tmp_path):
    service = Service(tmp_path, max_uploads=1)
    service.store.add_dataset("left")
    assert service.request("PUT", "/v1/datasets/d", content=ROWS).status_code == 201
    assert service.request("DELETE", "/v1/datasets/left").status_code == 204


def test_a_prediction_ends_with_its_client(service, server):
    model = service.add_model(service.add_dataset("data"), some_model())
    with closing(server.connect()) as client:
        client.sendall(request("POST", f"/v1/models/{model}/predict", LONG, Content_Type="text/libsvm"))
        wait_for(lambda: at_work(service))
    wait_for(lambda: not at_work(service), 30)


def test_the_end_does_not_wait_for_work_that_goes_on(tmp_path):
    service = Service(tmp_path, shutdown_seconds=1)
    model = service.add_model(service.add_dataset("data"), some_model())
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(request("POST", f"/v1/models/{model}/predict", LONG, Content_Type="text/libsvm"))
        wait_for(lambda: at_work(service))
        server.server.should_exit = True
        assert is_closed(client)
        server.thread.join(30)
        assert not server.thread.is_alive()
        wait_for(lambda: not at_work(service), 30)


def test_the_end_does_not_wait_for_a_thread_without_borders(tmp_path, monkeypatch, caplog):
    service, begun, end = Service(tmp_path, shutdown_seconds=1), Event(), Event()

    def endless(*_: object) -> Iterator[Prediction]:
        begun.set()
        end.wait(60)
        yield from ()

    model = service.add_model(service.add_dataset("data"), some_model())
    monkeypatch.setattr(Predictor, "predict_text", endless)
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(request("POST", f"/v1/models/{model}/predict", ROWS, Content_Type="text/libsvm"))
        assert begun.wait(30)
        server.server.should_exit = True
        server.thread.join(30)
        assert not server.thread.is_alive() and is_closed(client)
        end.set()
    assert not [record for record in caplog.records if record.exc_info]


def test_what_is_kept_of_a_prediction_goes_with_its_client(tmp_path):
    service = Service(tmp_path)
    room = service.app.state.context.room
    model = service.add_model(service.add_dataset("data"), some_model())
    rows = gzip.compress(b"1\n" * 1_000_000)
    with RunningServer(service, **WATCHFUL) as server:
        with closing(server.connect()) as client:
            client.sendall(request("POST", f"/v1/models/{model}/predict", rows, Content_Type="text/libsvm"))
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            assert room.in_use == 8_000_000
        wait_for(lambda: not room.in_use, 30)


def test_an_upload_by_command_waits_for_a_slot(tmp_path):
    service, waited = Service(tmp_path, max_uploads=1), []
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(head("first", 5000) + ROWS)
        wait_for(lambda: ingests(service), 30)

        def leave(seconds: float) -> None:
            waited.append(seconds)
            client.close()
            wait_for(lambda: nothing_is_left(service), 30)

        connection = Connection(f"http://127.0.0.1:{server.address[1]}", sleep=leave)
        assert connection.upload("/v1/datasets/second", io.BytesIO(ROWS))["rows"] == 2
    assert waited == [30.0]


def test_an_upload_from_a_pipe_cannot_wait_and_says_so(tmp_path):
    service = Service(tmp_path, max_uploads=1)
    reading, writing = os.pipe()
    os.write(writing, ROWS)
    os.close(writing)
    with RunningServer(service) as server, closing(server.connect()) as client, os.fdopen(reading, "rb") as pipe:
        client.sendall(head("first", 5000) + ROWS)
        wait_for(lambda: ingests(service), 30)
        with pytest.raises(ServiceError, match="under way") as refused:
            Connection(f"http://127.0.0.1:{server.address[1]}").upload("/v1/datasets/second", pipe)
    assert refused.value.code == "too_many_uploads" and "pipe" in refused.value.hint
