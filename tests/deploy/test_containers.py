"""api and worker as containers of their own, on volumes they share."""

import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from numba.core.caching import UserProvidedCacheLocator

from tests.deploy.container import ROOT, Containers, reason_unusable
from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.skipif(reason_unusable() is not None, reason=f"no containers: {reason_unusable()}")
SPEC = {**ENDLESS, "max_passes": 3}


class Project:
    """A pair of containers, and requests with the operator's token."""

    def __init__(self, directory: Path, kernels: Path) -> None:
        self.containers = Containers(directory, kernels)
        with socket.create_server(("", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.running: dict[str, subprocess.Popen] = {}
        made = self.containers.run("api", "token", "new", "operator", "--scope", "admin")
        assert made.returncode == 0, made.stderr
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=PATIENCE_SECONDS)

    def start(self, *services: str) -> "Project":
        for service in services:
            more = ("--port", self.port) if service == "api" else ()
            self.running[service] = self.containers.start(service, *more)
        return self

    def stop(self, service: str) -> int:
        return self.containers.stop(service, self.running[service])

    def request(self, method: str, path: str, **options: object) -> dict:
        answer = wait_for(lambda: self._answer(method, path, options))
        assert answer.is_success, answer.text
        return answer.json()

    def job(self, job: str) -> dict:
        return self.request("GET", f"/v1/jobs/{job}")

    def submit(self, text: bytes, **spec: object) -> str:
        self.request("PUT", "/v1/datasets/data", content=text)
        return self.request("POST", "/v1/jobs", json=spec)["id"]

    def wait_for_pass(self, job: str, number: int) -> dict:
        return wait_for(lambda: ((shown := self.job(job))["progress"] or {"pass": 0})["pass"] >= number and shown)

    def close(self) -> None:
        self._client.close()
        self.containers.kill()
        for process in self.running.values():
            process.wait()

    def _answer(self, method: str, path: str, options: dict) -> httpx.Response | None:
        for service, process in self.running.items():
            assert process.poll() is None, f"{service} ended: {self.containers.log()}"
        try:
            return self._client.request(method, path, **options)
        except httpx.ConnectError:
            return None


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> Path:
    """Copy the kernels that earlier tests compiled, as the image has them: compiling takes a minute."""
    folder = tmp_path_factory.mktemp("kernels")
    for found in (path for layer in ("storage", "reader", "trainer") for path in (ROOT / layer).rglob("*.nb[ci]")):
        source = found.parent.parent / "module.py"
        target = folder / UserProvidedCacheLocator.get_suitable_cache_subpath(str(source))
        target.mkdir(exist_ok=True)
        (target / found.name).write_bytes(found.read_bytes())
    return folder


@pytest.fixture
def new_project(tmp_path, kernels):
    """Makes projects that end with the test."""
    made: list[Project] = []

    def make() -> Project:
        made.append(Project(tmp_path / f"project{len(made)}", kernels))
        return made[-1]

    yield make
    for project in made:
        project.close()


def test_without_a_token_the_api_does_not_start(tmp_path, kernels):
    done = Containers(tmp_path, kernels).run("api", "serve", "--no-worker")
    assert done.returncode == 5 and "token new" in done.stderr


def test_two_projects_side_by_side_started_in_either_order(new_project, text):
    projects = [new_project().start("api", "worker"), new_project().start("worker", "api")]
    with ThreadPoolExecutor() as pool:
        jobs = list(pool.map(lambda project: project.submit(text, **SPEC), projects))
    for project, job in zip(projects, jobs, strict=True):
        ended = wait_for(lambda project=project, job=job: (shown := project.job(job))["finished_at"] and shown)
        assert ended["state"] == "succeeded" and ended["attempt"] == 1
        answer = project.request("POST", f"/v1/models/{ended['model_id']}/predict", json={"rows": [{"1": 1.0}]})
        assert len(answer["predictions"]) == 1
        assert project.containers.is_healthy("api", "--port", project.port)
        assert project.containers.is_healthy("worker")
        assert list(project.containers.cache.iterdir()) == []


def test_a_job_goes_on_while_the_api_and_then_the_worker_is_restarted(new_project, text):
    project = new_project().start("api", "worker")
    job = project.submit(text, **ENDLESS)
    before = project.wait_for_pass(job, 2)
    assert project.stop("api") == 0
    assert not project.containers.is_healthy("api", "--port", project.port)
    project.start("api")
    after = project.wait_for_pass(job, before["progress"]["pass"] + 1)
    assert after["attempt"] == 1 and after["started_at"] == before["started_at"]
    # A worker that is stopped hands its job back, and one that is killed loses nothing.
    assert project.stop("worker") == 0
    worker = project.running.pop("worker")
    assert not project.containers.is_healthy("worker")
    assert project.job(job)["state"] == "queued"
    assert list(project.containers.cache.iterdir()) == []
    project.start("worker").wait_for_pass(job, 2)
    worker = project.running.pop("worker")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    project.start("worker")
    wait_for(lambda: project.job(job)["state"] == "running" and project.job(job)["attempt"] > 1)
    project.wait_for_pass(job, 1)
    assert len(list(project.containers.cache.iterdir())) == 1


def test_nothing_but_volumes_and_the_temporary_directory_can_be_written(new_project):
    containers = new_project().containers
    assert containers.shell("api", "id -u").stdout.strip() == "10001"
    assert containers.shell("worker", f"touch {containers.data}/x {containers.cache}/x $TMPDIR/x").returncode == 0
    for place in (f"{ROOT}/x", "/x", f"{containers.cache}/x"):
        assert containers.shell("api", f"touch {place}").returncode != 0
