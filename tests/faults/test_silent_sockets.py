"""Two thousand sockets that say nothing, or half of something, and a healthy client beside them.

FAULT_MINUTES=10 is what `make silent` asks for. A socket the service has closed is followed by another at once.
"""

import http.client
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import httpx
import numpy as np

from tests.faults.scale import count

SILENT = 2000
MINUTES = float(os.environ.get("FAULT_MINUTES", 0))
SECONDS = 60 * MINUTES or count(2, 60)
PAUSE_SECONDS = 0.02
HEAD = b"PUT /v1/datasets/x HTTP/1.1\r\nHost: loc"


class Crowd:
    """Keeps so many silent sockets open; `replaced` counts those the service had enough of."""

    def __init__(self, url: str) -> None:
        self._address = (httpx.URL(url).host, httpx.URL(url).port)
        self._selector = selectors.DefaultSelector()
        self._is_over = threading.Event()
        self.replaced = 0

    def open(self) -> None:
        """One more, which says a part of a head, or nothing."""
        client = socket.create_connection(self._address, timeout=30)
        with suppress(OSError):
            client.sendall(HEAD[: client.fileno() % len(HEAD)])
        self._selector.register(client, selectors.EVENT_READ)

    def keep(self) -> None:
        """What the service sends is its last word."""
        while not self._is_over.is_set():
            for key, _ in self._selector.select(0.1):
                self.drop(key.fileobj)
                self.open()
                self.replaced += 1

    def drop(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        client.close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this lasts."""
        for _ in range(SILENT):
            self.open()
        thread = threading.Thread(target=self.keep)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
            for key in list(self._selector.get_map().values()):
                self.drop(key.fileobj)
            self._selector.close()


def ask(url: str) -> float:
    """Seconds of a request on a connection of its own: that is what silent sockets could take away."""
    began = time.monotonic()
    with closing(http.client.HTTPConnection(httpx.URL(url).netloc.decode(), timeout=30)) as connection:
        connection.request("GET", "/v1/datasets/data")
        assert connection.getresponse().status == 200
    return time.monotonic() - began


def ask_for_a_while(url: str, seconds: float) -> list[float]:
    asked, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        asked.append(ask(url))
        time.sleep(PAUSE_SECONDS)
    return asked


def told(seconds: list[float]) -> str:
    half, most, longest = np.round(1000 * np.quantile(seconds, [0.5, 0.99, 1]), 1).tolist()
    return f"{len(seconds)} requests, half of them in {half} ms, 99% in {most} ms, the longest {longest} ms"


def test_a_client_among_silent_sockets_is_answered(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    alone = ask_for_a_while(service.url, SECONDS / 10)
    crowd = Crowd(service.url)
    with crowd.kept():
        among = ask_for_a_while(service.url, SECONDS)
    print(f"alone: {told(alone)}; for {SECONDS:.0f} s among {SILENT} silent sockets: {told(among)}")
    print(f"{crowd.replaced} sockets were closed by the service")
    # Each has ten seconds.
    assert crowd.replaced >= SILENT * (SECONDS // 20)
    if MINUTES:
        assert np.quantile(among, 0.99) < 0.1
    service.signal(15)
    assert service.wait(30) == 0
