"""Clients that do nothing, or lie, lose their connection; others do not notice."""

import json
import socket
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest

from streamsvm.service.jobs.progress.feed import PART_BYTES, read_part
from streamsvm.storage.models.model_file import Model
from tests.api.app import PROBLEM, Service, nothing_is_left
from tests.api.server import RunningServer, is_closed, read_all, read_answer, request
from tests.end_to_end.service import wait_for

SECONDS = 0.4
HASTY = {"header": SECONDS, "body": SECONDS}
ROWS = b"1 1:1\n-1 2:1\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hasty")
    return Service(directory, max_connections=20, shutdown_seconds=60, max_upload_bytes=100_000)


@pytest.fixture(scope="module")
def server(service):
    with RunningServer(service, **HASTY) as running:
        yield running


@pytest.fixture
def client(server):
    with closing(server.connect()) as client:
        yield client


def check(head: bytes, body: bytes, status: int, code: str) -> None:
    assert head.startswith(b"HTTP/1.1 %d " % status)
    problem = json.loads(body)
    assert problem.keys() == PROBLEM and (problem["code"], problem["status"]) == (code, status)
    assert f"x-request-id: {problem['request_id']}".encode() in head


def test_a_socket_that_says_nothing_is_closed(client):
    assert client.recv(1) == b""


def test_a_head_that_does_not_end(client):
    client.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: loc")
    check(*read_answer(client), 408, "too_slow")
    assert is_closed(client)


def test_a_connection_stays_between_two_requests(client):
    for _ in range(2):
        client.sendall(request("GET", "/v1/jobs"))
        assert read_answer(client)[0].startswith(b"HTTP/1.1 200 ")
        time.sleep(2 * SECONDS)


def test_but_not_for_ever(tmp_path):
    with RunningServer(Service(tmp_path), idle=1) as server, closing(server.connect()) as client:
        client.sendall(request("GET", "/v1/jobs"))
        assert read_answer(client)[0].startswith(b"HTTP/1.1 200 ")
        assert is_closed(client)


def test_the_head_of_a_second_request_that_does_not_end(client):
    client.sendall(request("GET", "/v1/jobs"))
    read_answer(client)
    client.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: loc")
    check(*read_answer(client), 408, "too_slow")
    assert is_closed(client)


def drip(client, data: bytes) -> None:
    """Send a byte at a time until the server closes the connection."""
    try:
        for byte in data:
            client.sendall(bytes([byte]))
            time.sleep(SECONDS / 10)
    except OSError:
        pass


def test_a_head_that_comes_in_drops(client):
    drip(client, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200)
    assert is_closed(client)


@pytest.mark.parametrize("send", [lambda client, data: client.sendall(data[:5]), drip], ids=["stalls", "drips"])
def test_a_body_that_does_not_get_on(service, client, send):
    client.sendall(request("PUT", "/v1/datasets/d", Content_Length="5000"))
    send(client, b"1 1:1\n" * 30)
    if send is not drip:
        check(*read_answer(client), 408, "too_slow")
    assert is_closed(client)
    wait_for(lambda: nothing_is_left(service))


def test_a_slow_body_that_gets_on_is_read(service, client):
    pieces = [b"1 1:1\n" * 500] * 16
    client.sendall(request("PUT", "/v1/datasets/slow", Content_Length=str(sum(map(len, pieces)))))
    for piece in pieces:
        client.sendall(piece)
        time.sleep(SECONDS / 4)
    assert read_answer(client)[0].startswith(b"HTTP/1.1 201 ")
    service.request("DELETE", "/v1/datasets/slow")


def test_a_body_that_is_longer_than_it_says(client):
    client.sendall(request("GET", "/v1/jobs", Content_Length="2") + b"{}and more\r\n\r\n")
    first, second = read_all(client).split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 ")
    check(*(b"HTTP/1.1 " + second).split(b"\r\n\r\n"), 400, "bad_request")


@pytest.mark.parametrize(
    "data",
    [
        b"spam\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        *(
            request("PUT", "/v1/datasets/d", Content_Length=length)
            for length in ("-1", "1, 2", "spam", "1.5", "1_0", "²", "0x10", "9" * 5000)
        ),
        request("PUT", "/v1/datasets/d", content_length="3"),
        request("PUT", "/v1/datasets/d", Transfer_Encoding="gzip"),
        request("POST", "/v1/jobs", b"0\r\n\r\n", Transfer_Encoding="chunked") + request("GET", "/v1/jobs"),
    ],
    ids=lambda data: data[:40].hex() if data[0] < 32 else data[:40].decode(),
)
def test_what_is_not_http(server, data):
    with closing(server.connect()) as client:
        client.sendall(data)
        head, _, body = read_all(client).partition(b"\r\n\r\n")  # to the end of the connection
    check(head, body, 400, "bad_request")


def test_a_chunk_that_is_none_ends_the_upload(service, client):
    client.sendall(request("PUT", "/v1/datasets/d", Content_Length="0", Transfer_Encoding="chunked").replace(
        b"Content-Length: 0\r\n", b"") + b"spam\r\n")  # fmt: skip
    check(*read_answer(client), 400, "bad_request")
    wait_for(lambda: nothing_is_left(service))


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(client):
    client.sendall(request("PUT", "/v1/datasets/too-large", Content_Length="100001", Expect="100-continue"))
    check(*read_answer(client), 413, "body_too_large")
    # Going on with it is of no use.
    assert is_closed(client)


def test_a_client_that_waits_for_leave_to_send_gets_it(client):
    client.sendall(request("PUT", "/v1/datasets/asked", Content_Length=str(len(ROWS)), Expect="100-continue"))
    assert client.recv(4096).startswith(b"HTTP/1.1 100 ")
    client.sendall(ROWS)
    assert read_answer(client)[0].startswith(b"HTTP/1.1 201 ")


@pytest.fixture
def large_model(service):
    """The id of a model whose file is more than sockets buffer."""
    weights = np.random.default_rng(0).normal(size=3_000_000)
    dataset_id = service.add_dataset("large")
    model = Model(weights, (1.0, -1.0), 1, None, 0.0, {"loss": "hinge", "converged": True})
    yield service.add_model(dataset_id, model)
    service.request("DELETE", "/v1/datasets/large")


def test_a_client_that_takes_nothing_of_its_answer(large_model, server, client):
    wait_for(lambda: len(server.server.server_state.connections) == 1)
    client.sendall(request("GET", f"/v1/models/{large_model}/file?format=npz"))
    wait_for(lambda: not server.server.server_state.connections)


def test_a_stream_whose_client_takes_nothing_is_not_fed_and_ends(service, server):
    job = service.store.add_job(service.add_dataset("followed"), {"dataset": "followed"})
    (service.settings.jobs / job).mkdir()
    line = json.dumps({"pass": 1, "note": "x" * PART_BYTES}) + "\n"
    (service.settings.jobs / job / "history.ndjson").write_text(100 * line)
    service.store.claim()
    service.store.finish(job, "succeeded", model_id="mdl_1")
    read_part.cache_clear()
    with closing(server.connect()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(request("GET", f"/v1/jobs/{job}/events"))
        wait_for(lambda: read_part.cache_info().misses)
        wait_for(lambda: not server.server.server_state.connections, 30)
    assert read_part.cache_info().misses < 20


def test_a_client_that_takes_its_answer_slowly_gets_it(large_model, client):
    client.sendall(request("GET", f"/v1/models/{large_model}/file?format=npz"))
    time.sleep(SECONDS / 2)
    head, body = read_answer(client)
    assert head.startswith(b"HTTP/1.1 200 ") and len(body) > 20_000_000


def test_silent_sockets_make_room_for_those_that_speak(server):
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(server.connect())) for _ in range(60)]
        for _ in range(3):
            assert server.answer(request("GET", "/v1/jobs"))[0].startswith(b"HTTP/1.1 200 ")
        assert len(server.server.server_state.connections) <= 20
        assert all(is_closed(client) for client in silent[:40])


def test_a_request_under_way_is_not_given_up_for_silent_sockets(server, service):
    dataset_id = service.add_dataset("watched")
    job = service.store.add_job(dataset_id, {"dataset": "watched"})
    with ExitStack() as stack:
        watching = [stack.enter_context(closing(server.connect())) for _ in range(5)]
        for client in watching:
            client.sendall(request("GET", f"/v1/jobs/{job}?wait_seconds=2&after={1 << 62}"))
        wait_for(lambda: len(server.server.server_state.tasks) == len(watching))
        for _ in range(60):
            stack.enter_context(closing(server.connect()))
        for client in watching:
            assert read_answer(client)[0].startswith(b"HTTP/1.1 200 ")


def test_an_open_event_stream_outlives_the_deadlines_and_ends_with_the_server(tmp_path):
    service = Service(tmp_path, shutdown_seconds=600)
    job = service.store.add_job(service.add_dataset("data"), {"dataset": "data"})
    with RunningServer(service, **HASTY) as server, closing(server.connect()) as client:
        client.sendall(request("GET", f"/v1/jobs/{job}/events"))
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.settimeout(4 * SECONDS)
        assert not is_closed(client)
        server.server.should_exit = True
        server.thread.join(60)
        assert not server.thread.is_alive()


def test_a_poll_that_waits_is_answered_when_the_server_ends(tmp_path):
    service = Service(tmp_path, shutdown_seconds=600)
    job = service.store.add_job(service.add_dataset("data"), {"dataset": "data"})
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(request("GET", f"/v1/jobs/{job}?wait_seconds=60&after={1 << 62}"))
        wait_for(lambda: server.server.server_state.tasks)
        began = time.monotonic()
        server.server.should_exit = True
        head, body = read_answer(client)
        assert head.startswith(b"HTTP/1.1 200 ") and json.loads(body)["state"] == "queued"
        server.thread.join(30)
        assert not server.thread.is_alive() and time.monotonic() - began < 30
