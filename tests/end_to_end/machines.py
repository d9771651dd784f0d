"""Jobs on several machines, as tests begin and end them."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests import s3 as stores
from tests.end_to_end.service import PLAIN, Service, running, wait_for
from tests.ray_nodes import Nodes

URL = "s3://bucket/part-*"  # of the problem in the store
OPTIMUM = 1768.57754  # of the problem: LIBLINEAR's, -s 3 -c 1 -e 1e-7
_ENDLESS = {"dataset": "data", "machines": 2, "tolerance": None, "max_passes": 1_000_000, "checkpoint_seconds": 1}

# How often each fault is made.
again = pytest.mark.parametrize("_number", range(int(os.environ.get("CLUSTER_FAULTS", "1"))))


@contextmanager
def serving(directory: Path, address: str, text: bytes, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """A service with this cluster and with the problem as `data`."""
    service = Service(directory, ray_address=address, import_sources="s3://bucket/")
    service.processes.environment |= environment or {}
    with running(service):
        upload_in_blocks(service, text)
        yield service


def upload_in_blocks(service: Service, text: bytes) -> None:
    """The problem as `data`, of eight blocks: rows that are added make new ones."""
    lines = text.splitlines(keepends=True)
    service.upload("data", b"".join(lines[:375]))
    for start in range(375, 3000, 375):
        part = b"".join(lines[start : start + 375])
        assert httpx.post(f"{service.url}/v1/datasets/data/blocks", content=part, **PLAIN).status_code == 201


def processes(word: str) -> list[psutil.Process]:
    """Those that have it in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if word in " ".join(process.info["cmdline"] or ()):
            found.append(process)
    return found


def begun(service: Service, **fields: object) -> str:
    """A job that goes on for ever; at any moment of a round."""
    job_id = service.submit(**{**_ENDLESS, **fields})
    service.wait_for_pass(job_id, 5)
    time.sleep(random.uniform(0, 1))
    return job_id


def goes_on(service: Service, job_id: str) -> None:
    """More rounds, and an end with a certificate."""
    now = service.job(job_id)["progress"]["pass"]
    service.wait_for_pass(job_id, now + 3, service.job(job_id)["attempt"])
    stop(service, job_id)


def stop(service: Service, job_id: str) -> None:
    """It ends, with a certificate."""
    httpx.post(f"{service.url}/v1/jobs/{job_id}/stop", **PLAIN)
    job = service.wait_until_ended(job_id)
    assert job["state"] == "stopped", job["failure"]
    certificate = job["result"]["certificate"]
    assert certificate["w_error"] < 1e-6
    assert certificate["dual_objective"] < OPTIMUM * (1 + 1e-6)
    assert OPTIMUM * (1 - 1e-6) < certificate["primal_objective"] < 2 * OPTIMUM


@pytest.fixture(autouse=True)
def nothing_left(nodes, service):
    """No process and nothing kept of a job; a test that failed costs itself, and not those after it."""
    yield
    for job in service.get("/v1/jobs")["jobs"]:
        if job["state"] in ("queued", "running"):
            httpx.post(f"{service.url}/v1/jobs/{job['id']}/cancel", **PLAIN)
            service.wait_until_ended(job["id"])
    for directory in nodes.directories:
        (directory / "filler").unlink(missing_ok=True)  # of a full disk
    wait_for(lambda: not processes("streamsvm.trainer.distributed.shard"), 120)
    wait_for(lambda: not list(Path("/dev/shm").glob("streamsvm-shard-*")), 30)
    for directory in nodes.directories:
        wait_for(lambda directory=directory: not list(directory.glob("jobs/*")), 30)


@pytest.fixture(scope="module")
def store(text):
    """An object store with the problem in eight files."""
    with stores.running() as found:
        lines = text.splitlines(keepends=True)
        for number in range(8):
            found.put(f"bucket/part-{number}", b"".join(lines[number * 375 : (number + 1) * 375]))
        yield found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory, store):
    """A cluster of two nodes, which find the store."""
    cluster = Nodes(tmp_path_factory.mktemp("nodes"), 2, store.environment())
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory, nodes, store, text):
    """A service with these."""
    with serving(tmp_path_factory.mktemp("service"), nodes.address, text, store.environment()) as service:
        yield service


@pytest.fixture(scope="module", name="service")
def storeless(tmp_path_factory, nodes, text):
    """A service with the nodes of the tests' own file."""
    with serving(tmp_path_factory.mktemp("service"), nodes.address, text) as service:
        yield service


@pytest.fixture
def spread(service, nodes):
    """The dataset of this name, spread over both nodes, which have nothing of it afterwards."""
    yield put(service, "spread", machines=2)
    forget(service, "spread")
    wait_for(lambda: not parts(nodes))


def put(service: Service, name: str, url: str = URL, **query: object) -> dict:
    """A dataset of the store, when it has been read in or that has failed."""
    answer = httpx.put(f"{service.url}/v1/datasets/{name}", params={"import": url, **query}, **PLAIN)
    assert answer.status_code == 202, answer.text
    return wait_for(lambda: (found := service.get(f"/v1/datasets/{name}"))["state"] != "ingesting" and found)


def forget(service: Service, name: str) -> None:
    """Delete a dataset."""
    assert httpx.delete(f"{service.url}/v1/datasets/{name}", **PLAIN).status_code == 204


def parts(nodes: Nodes) -> list[Path]:
    """Directories of datasets on nodes."""
    return sorted(nodes.directory.glob("node*/datasets/*"))
