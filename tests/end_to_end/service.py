"""A real service for tests: `streamsvm serve` on a free port, with every process of its own findable and killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

STREAMSVM = Path(sys.executable).with_name("streamsvm")
PATIENCE_SECONDS = 180  # only a test that fails takes it all; a machine may be busy
# No https here: without this every request reads all certificates of the system first, which takes forty milliseconds.
PLAIN: Any = {"verify": False, "timeout": PATIENCE_SECONDS}
ENDED = ("succeeded", "stopped", "failed", "cancelled")


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """What `condition` returns once it is true; asked ever more seldom, for that takes time from what is waited for."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} seconds"
        time.sleep(min(0.15, 0.02 + waited / 20))
    return found


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _checked(answer: httpx.Response) -> httpx.Response:
    # Imported here because it takes a second, and all tests import this module.
    from tests.api.answers import checked  # noqa: PLC0415

    return checked(answer)


class Processes:
    """The processes of one test, known by their environment: it is handed down to every child.

    That of a forked process is gone, its title is there instead: with a directory in `home`, or in the cache's.
    """

    def __init__(self, cache_dir: Path, home: Path | None = None, **settings: object) -> None:
        self._mark = f"STREAMSVM_CACHE_DIR={cache_dir}\0".encode()
        self._home = f"{home or cache_dir}/".encode()
        self.temporary = cache_dir
        given = {f"STREAMSVM_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = {**os.environ, "STREAMSVM_CACHE_DIR": str(cache_dir), "TMPDIR": str(cache_dir), **given}

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen:
        """Start the command `streamsvm`."""
        command = [str(STREAMSVM), *map(str, arguments)]
        return subprocess.Popen(command, env=self.environment, start_new_session=True, **options)

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess:
        """Run the command `streamsvm` to its end."""
        command = [str(STREAMSVM), *map(str, arguments)]
        options = {"capture_output": True, "timeout": PATIENCE_SECONDS, **options}
        return subprocess.run(command, env=self.environment, check=False, **options)

    def alive(self, what: str = "") -> list[int]:
        """Ids of the processes whose command line has `what` in it; zombies do not count."""
        return [
            pid
            for pid in map(int, filter(str.isdecimal, (entry.name for entry in Path("/proc").iterdir())))
            if self._is_ours(pid, what)
        ]

    def one(self, what: str) -> int:
        """The one process whose command line has `what` in it, once there is one."""
        (pid,) = wait_for(lambda: self.alive(what))
        return pid

    def kill_all(self) -> None:
        """Kill whatever is left."""
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.alive())

    def _is_ours(self, pid: int, what: str) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            environment = Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
            is_ours = self._mark in environment or self._home in command
            return is_ours and what.encode() in command
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False


@contextmanager
def running(service: "Service") -> Iterator["Service"]:
    """The service, started; it leaves no process."""
    try:
        yield service.start()
    finally:
        service.kill()


class Service:
    """`streamsvm serve`: `start`, requests, `end`."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.data_dir, self.cache_dir = directory / "data", directory / "cache"
        self.cache_dir.mkdir(parents=True)
        self.processes = Processes(self.cache_dir, directory, **settings)
        self.url = ""
        self._serve: subprocess.Popen | None = None

    def start(self, authorization: str = "") -> "Service":
        """Returns when it answers whoever has this authorization. Started again, it has the same address."""
        self._headers = {"Authorization": authorization} if authorization else {}
        if not self.url:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        port = self.url.rsplit(":", 1)[1]
        log = (self.data_dir.parent / "log").open("ab")
        with log:
            arguments = ("serve", "--port", port, "--data-dir", self.data_dir)
            self._serve = self.processes.start(*arguments, stdout=log, stderr=log)
        wait_for(self._answers)
        return self

    def signal(self, number: int) -> None:
        """To the process `serve` alone, as a process manager would; its children are in sessions of their own."""
        assert self._serve is not None
        self._serve.send_signal(number)

    def wait(self, seconds: float) -> int:
        """The exit code."""
        assert self._serve is not None
        return self._serve.wait(seconds)

    def kill(self) -> None:
        """Leaves no process."""
        if self._serve is not None:
            self._serve.kill()
            self._serve.wait()
        self.processes.kill_all()

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        response = _checked(httpx.get(self.url + path, **PLAIN))
        assert response.status_code == 200, response.text
        return response.json()

    def upload(self, name: str, text: bytes) -> Path:
        """A dataset; returns its directory."""
        before = set(self.data_dir.glob("datasets/*"))
        response = _checked(httpx.put(f"{self.url}/v1/datasets/{name}", content=text, **PLAIN))
        assert response.status_code == 201, response.text
        (directory,) = set(self.data_dir.glob("datasets/ds_*")) - before
        return directory

    def submit(self, **spec: object) -> str:
        """A job, without a bias unless one is named: so are the references. Returns its id."""
        response = _checked(httpx.post(f"{self.url}/v1/jobs", json={"bias": None, **spec}, **PLAIN))
        assert response.status_code == 202, response.text
        return response.json()["id"]

    def job(self, job_id: str) -> dict[str, Any]:
        """A job as shown."""
        return self.get(f"/v1/jobs/{job_id}")

    def wait_for_state(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of the states."""
        return wait_for(lambda: (job := self.job(job_id))["state"] in states and job)

    def wait_for_pass(self, job_id: str, number: int, attempt: int = 1) -> dict[str, Any]:
        """The job once it has begun a pass in an attempt."""
        return wait_for(
            lambda: (
                (job := self.job(job_id))["attempt"] == attempt
                and job["progress"]
                and job["progress"]["pass"] >= number
                and job
            )
        )

    def wait_until_ended(self, job_id: str) -> dict[str, Any]:
        """The job in its last state."""
        return self.wait_for_state(job_id, *ENDED)

    def train(self, **spec: object) -> dict[str, Any]:
        """A job that has succeeded."""
        ended = self.wait_until_ended(self.submit(**spec))
        assert ended["state"] == "succeeded", json.dumps(ended["failure"], indent=1)
        return ended

    def model(self, job: dict[str, Any], format_: str = "npz") -> bytes:
        """The model file of a job that has succeeded."""
        assert job["state"] == "succeeded", json.dumps(job["failure"], indent=1)
        response = _checked(httpx.get(f"{self.url}/v1/models/{job['model_id']}/file?format={format_}", **PLAIN))
        assert response.status_code == 200, response.text
        return response.content

    def run_directories(self) -> list[Path]:
        """What is in the cache directory, or left of a run elsewhere."""
        return [*self.cache_dir.iterdir(), *self.data_dir.glob("jobs/streamsvm-*"), *self.data_dir.glob("jobs/*/run")]

    def _answers(self) -> bool:
        assert self._serve is not None
        assert self._serve.poll() is None, (self.data_dir.parent / "log").read_text()
        try:
            return httpx.get(f"{self.url}/v1/datasets", headers=self._headers, **PLAIN).status_code == 200
        except httpx.TransportError:
            return False
