"""Thousands of sockets that say nothing, and a healthy client beside them."""

import http.client
import socket
import time
from contextlib import ExitStack, closing, suppress

import httpx
import numpy as np
import pytest

SILENT = 2000


def open_silent(url: str, stack: ExitStack) -> list[socket.socket]:
    address = (httpx.URL(url).host, httpx.URL(url).port)
    return [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(SILENT)]


def say_half_of_a_head(sockets: list[socket.socket]) -> None:
    for number, client in enumerate(sockets):
        with suppress(OSError):
            client.sendall(b"PUT /v1/datasets/x HTTP/1.1\r\nHost: loc"[: number % 40])


def ask(url: str) -> float:
    """Seconds of a request on a connection of its own: that is what silent sockets could take away."""
    began = time.monotonic()
    with closing(http.client.HTTPConnection(httpx.URL(url).netloc.decode(), timeout=30)) as connection:
        connection.request("GET", "/v1/datasets/data")
        assert connection.getresponse().status == 200
    return time.monotonic() - began


def quantiles(seconds: list[float]) -> list[float]:
    return np.round(1000 * np.quantile(seconds, [0.5, 0.99, 1]), 1).tolist()


@pytest.mark.slow
def test_two_thousand_silent_sockets_do_not_keep_a_client_waiting(new_service, text, capsys):
    service = new_service(header_seconds=5, max_connections=1500).start()
    service.upload("data", text)
    seconds = []
    with ExitStack() as stack:
        for _ in range(6):
            sockets = open_silent(service.url, stack)
            say_half_of_a_head(sockets)
            seconds += [ask(service.url) for _ in range(200)]
            stack.close()
    with capsys.disabled():
        print("\nmilliseconds at 50%, 99%, 100% of requests among silent sockets:", quantiles(seconds), end=" ")
        print("without them:", quantiles([ask(service.url) for _ in range(200)]))
    service.signal(15)
    assert service.wait(30) == 0


def test_a_service_beyond_this_machine_needs_a_token(processes, tmp_path):
    refused = processes.run("serve", "--host", "0.0.0.0", "--port", 0, "--data-dir", tmp_path)
    assert refused.returncode == 5
    assert b"needs a token" in refused.stderr and b"streamsvm token new" in refused.stderr
