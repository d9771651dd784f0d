"""A proxy that cuts connections at random bytes, on the way to the service and on the way back."""

import contextlib
import random
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)
_SHORT_BYTES = 1000


class CuttingProxy:
    """Passes bytes on to `address`, within `with`; cuts `cuts` connections, each after up to `most_bytes` bytes.

    Every fourth whose request is short is cut when its answer arrives. Half of the cuts reset the connection.
    """

    def __init__(self, address: tuple[str, int], cuts: int, most_bytes: int, seed: int) -> None:
        self._address, self._most_bytes, self._random = address, most_bytes, random.Random(seed)
        self.cuts_left = cuts
        self._passed: dict[socket.socket, int] = {}  # bytes of the client that the service was sent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "CuttingProxy":
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in `accept` is not woken by `close` alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._address, timeout=120)
        except OSError:  # the service is being started again
            client.close()
            return
        limit = self._random.randrange(self._most_bytes) if self.cuts_left > 0 else None
        loses_answer = limit is not None and self._random.random() < 1 / 4
        answering = threading.Thread(target=self._answer, args=(client, server, loses_answer), daemon=True)
        self._passed[client] = 0
        answering.start()
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16 if limit is None else min(1 << 16, limit + 1 - self._passed[client])):
                if limit is not None and self._passed[client] + len(data) > limit:
                    server.sendall(data[:-1])
                    self._cut(client, server)
                    break
                server.sendall(data)
                self._passed[client] += len(data)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_WR)
        answering.join()
        client.close()
        server.close()

    def _answer(self, client: socket.socket, server: socket.socket, loses_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if loses_answer and self._passed[client] < _SHORT_BYTES:
                    self._cut(client, server)
                    return
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def _cut(self, client: socket.socket, server: socket.socket) -> None:
        self.cuts_left -= 1
        is_reset = self._random.random() < 1 / 2
        for end in (client, server):
            with contextlib.suppress(OSError):
                if is_reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
