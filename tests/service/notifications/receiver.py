"""A real HTTP server that gets notifications, and answers as a test says."""

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Arrival(NamedTuple):
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Runs within `with`. The statuses in `answers` are given one after the other, then 200; `arrived` counts requests.

    hold  called before an answer is sent
    """

    def __init__(self, *answers: int, hold: Callable[[], object] = lambda: None) -> None:
        self.arrivals: list[Arrival] = []
        self.arrived = threading.Semaphore(0)
        receiver, waiting = self, list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): text for name, text in self.headers.items()}
                receiver.arrivals.append(Arrival(self.path, headers, body))
                receiver.arrived.release()
                hold()
                with suppress(OSError):
                    self.send_response(waiting.pop(0) if waiting else 200)
                    self.send_header("Location", receiver.url("/elsewhere"))
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def url(self, path: str = "/hook?to=me") -> str:
        return f"http://{self.host}{path}"

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
