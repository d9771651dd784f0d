"""The demo's service: started for it, and gone with it."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from service.settings import Settings
from tests.end_to_end.demo_memory import PeakMemory
from tests.end_to_end.service import Processes

_POLL_SECONDS = 0.1
_START_SECONDS = 60
_END_SECONDS = 15


class DemoFailed(Exception):
    """What went wrong, for people."""


class ServiceSilent(DemoFailed):
    """It does not answer; its log may say why."""


def checked(answer: httpx.Response) -> dict[str, Any]:
    """The JSON of an answer; DemoFailed with the service's own words if it refused."""
    if answer.is_success:
        return answer.json()
    problem = answer.json()
    raise DemoFailed(f"the service refused: {problem['detail']}{place(problem['at'])}\n  {problem['hint']}")


def place(at: dict[str, Any]) -> str:
    """Where in the input, if it is known."""
    known = [f"{name} {at[name]}" for name in ("line", "column") if at.get(name) is not None]
    return f" ({', '.join(known)})" if known else ""


@contextlib.contextmanager
def running_service(directory: Path, port: int) -> Iterator[tuple[httpx.Client, PeakMemory]]:
    """`streamsvm serve` on `port` (0: a free one), data below `directory`, caches in a folder where they would be."""
    port = port or free_port()
    default = Settings.from_environment(directory).cache_dir
    cache = Path(tempfile.mkdtemp(prefix="streamsvm-demo-", dir=default if default.is_dir() else directory))
    processes = Processes(cache)
    log = directory / "log"
    try:
        with log.open("wb") as output:
            command = ("serve", "--port", port, "--data-dir", directory / "data")
            serve = processes.start(*command, stdout=output, stderr=output)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=None, trust_env=False)
        try:
            with client, PeakMemory(processes) as memory:
                wait_until_it_answers(client, serve)
                yield client, memory
        except (httpx.TransportError, ServiceSilent):
            sys.stderr.write(log.read_text())
            raise
        finally:
            end(serve)
    finally:
        processes.kill_all()
        shutil.rmtree(cache)


def wait_until_it_answers(client: httpx.Client, serve: subprocess.Popen) -> None:
    """Raises ServiceSilent if it ends, or does not begin."""
    give_up = time.monotonic() + _START_SECONDS
    while serve.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(httpx.TransportError):
            client.get("/v1/datasets")
            return
        time.sleep(_POLL_SECONDS)
    raise ServiceSilent("the service did not start")


def end(serve: subprocess.Popen) -> None:
    """As Ctrl-C in its terminal would."""
    serve.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        serve.wait(_END_SECONDS)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
