"""An app behind its real server, in a thread, and clients that speak to it byte by byte."""

import contextlib
import socket
import threading
from contextlib import closing

from streamsvm.api.server import make_server
from tests.api.app import Service
from tests.end_to_end.service import wait_for


class RunningServer:
    """`connect` to it; `with` ends it."""

    def __init__(self, service: Service) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.server = make_server(service.app, service.settings, self.address[1])
        self.thread = threading.Thread(target=self.server.run, args=([self._listener],))

    def __enter__(self) -> "RunningServer":
        self.thread.start()
        wait_for(lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self._listener.close()
        assert not self.thread.is_alive()

    def connect(self) -> socket.socket:
        """A client."""
        return socket.create_connection(self.address, timeout=30)

    def answer(self, data: bytes) -> tuple[bytes, bytes]:
        """Head and body of the answer to bytes sent at once, on a connection of their own."""
        with closing(self.connect()) as client:
            client.sendall(data)
            return read_answer(client)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as bytes; `Content-Length` unless it is given."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    named = {"Host": "localhost", "Content-Length": str(len(body)), **named}
    head = "".join(f"{name}: {text}\r\n" for name, text in named.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def read_answer(client: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one answer of known length; what there was of it if the connection ends."""
    data = b""
    while b"\r\n\r\n" not in data and (chunk := client.recv(65536)):
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length and (chunk := client.recv(65536)):
        body += chunk
    return head, body


def is_closed(client: socket.socket) -> bool:
    """Whether the server ends the connection, within the client's time limit."""
    try:
        read_all(client)
    except TimeoutError:
        return False
    return True


def read_all(client: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            data += chunk
    return data
