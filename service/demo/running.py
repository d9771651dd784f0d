"""Runs a service for the demo, and removes it afterwards."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from streamsvm.service.demo.peak_memory import PeakMemory
from streamsvm.service.errors import ServiceError
from streamsvm.service.remote.client import Client
from streamsvm.service.settings import Settings

_POLL_SECONDS = 0.1
_START_SECONDS = 60
_END_SECONDS = 15


@contextlib.contextmanager
def running_service(directory: Path, port: int) -> Iterator[tuple[Client, PeakMemory]]:
    """Run `streamsvm serve` on `port` (0: a free one); yields a client, and the memory of the service's processes.

    Data are below `directory`. Caches are in a new folder of the usual place for caches.
    """
    port = port or free_port()
    default = Settings.from_environment(directory).cache_dir
    cache = Path(tempfile.mkdtemp(prefix="streamsvm-demo-", dir=default if default.is_dir() else directory))
    log = directory / "log"
    command = [
        sys.executable,
        "-m",
        "streamsvm.service.cli",
        "serve",
        "--port",
        str(port),
        "--data-dir",
        str(directory / "data"),
    ]
    environment = {**os.environ, "STREAMSVM_CACHE_DIR": str(cache), "TMPDIR": str(cache)}
    try:
        with log.open("wb") as output:
            # In its own session, so that a Ctrl-C reaches the demo only, which then ends the service.
            serve = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        client = Client(f"http://127.0.0.1:{port}")
        try:
            with PeakMemory(serve.pid) as memory:
                _wait_until_it_answers(client, serve)
                yield client, memory
        except ServiceError as error:
            if error.code == "no_service":
                sys.stderr.write(log.read_text())
            raise
        finally:
            _end(serve)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _wait_until_it_answers(client: Client, serve: "subprocess.Popen[bytes]") -> None:
    """Wait for the service's first answer; ServiceError no_service if it ends before, or takes too long."""
    give_up = time.monotonic() + _START_SECONDS
    while serve.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(ServiceError):
            client.json("GET", "/v1/datasets")
            return
        time.sleep(_POLL_SECONDS)
    raise ServiceError("no_service", "the service did not start")


def _end(serve: "subprocess.Popen[bytes]") -> None:
    """End the service with SIGINT, as Ctrl-C does, or kill it; its child processes end with it."""
    serve.send_signal(signal.SIGINT)
    try:
        serve.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        serve.kill()
        serve.wait()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
