"""Runs an app behind its real server, in a thread, for clients that send single bytes."""

import contextlib
import socket
import threading
from contextlib import closing

from streamsvm.api.requests.deadlines import Deadlines
from streamsvm.api.server import make_server
from streamsvm.service.forks.fork_server import fork_server
from tests.api.app import Service
from tests.end_to_end.service import wait_for


class RunningServer:
    """A server that runs within `with`."""

    def __init__(self, service: Service, **deadlines: int | float) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.server = make_server(service.app, service.settings, self.address[1], Deadlines(**deadlines))
        self.thread = threading.Thread(target=self.server.run, args=([self._listener],))

    def __enter__(self) -> "RunningServer":
        fork_server()  # it begins to load its libraries
        self.thread.start()
        wait_for(lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self._listener.close()
        assert not self.thread.is_alive()

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.address, timeout=30)

    def answer(self, data: bytes) -> tuple[bytes, bytes]:
        """Send bytes on a new connection; return head and body of the answer."""
        with closing(self.connect()) as client:
            client.sendall(data)
            return read_answer(client)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Make the bytes of a request; it has a `Content-Length` unless `headers` has one."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    named = {"Host": "localhost", "Content-Length": str(len(body)), **named}
    head = "".join(f"{name}: {text}\r\n" for name, text in named.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def read_answer(client: socket.socket) -> tuple[bytes, bytes]:
    """Read head and body of one answer with a `Content-Length`; return a part if the connection ends."""
    data = b""
    while b"\r\n\r\n" not in data and (chunk := client.recv(65536)):
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length and (chunk := client.recv(65536)):
        body += chunk
    return head, body


def is_closed(client: socket.socket) -> bool:
    """Tell whether the server ends the connection within the client's timeout."""
    try:
        read_all(client)
    except TimeoutError:
        return False
    return True


def read_all(client: socket.socket) -> bytes:
    """Read until the server ends the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            data += chunk
    return data
