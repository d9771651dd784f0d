"""File descriptors that run out, or room of mapped files, cost answers or an attempt, and nothing else."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import httpx

from streamsvm.storage.errors import OutOfSpace
from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import PLAIN, wait_for

ROOT = Path(__file__).resolve().parents[2]
DISK_BYTES = 2 << 20

# Each begins with a disk that is full but for one page, `full`, and an empty one.
USES = {
    "state": "create_state(full, 5_000, 5_000).alpha[:] = 1",
    "held_out": "HeldOut(full, 5_000).put(0, np.arange(5_000), np.ones(5_000), np.ones(5_000))",
    "weights": "held = HeldOut(empty, 5_000); fill(empty); held.put_weights(np.arange(10), np.ones(10))",
    "shard": "new_array(full / OWN_W_FILE, REAL, (5_000, 1))[:] = 1",
    "cache": "fill(full, 0); CacheWriter(full / CACHE_FILE, plan_cache(1 << 20, 100))",
    "rows of an upload": """
state = create_state(empty, 1 << 30, 1 << 20, True)
room = StateRoom(state)
room.take(10, 10)
fill(empty)
for n_rows in range(10, 1_000_000, 10_000):
    room.take(n_rows, 10)
    state.score[n_rows - 1] = state.alpha[n_rows - 1, 0]
""",
    "features of an upload": """
state = create_state(empty, 1 << 30, 1 << 27, True)
room = StateRoom(state)
room.take(10, 10)
fill(empty)
for width in range(10, 1_000_000, 10_000):
    room.take(10, width)
    state.w[width - 1] = 1
""",
}
PROGRAM = """
import json
import os
import sys
from pathlib import Path
import numpy as np
from streamsvm.reader.certificate.kept_values import HeldOut
from streamsvm.storage.errors import OutOfSpace
from streamsvm.storage.files.arrays import new_array
from streamsvm.storage.rows.cache import CacheWriter
from streamsvm.storage.rows.cache_plan import plan_cache
from streamsvm.storage.run.failure import telling
from streamsvm.storage.run.state import CACHE_FILE, OWN_W_FILE, REAL, StateRoom, create_state

def fill(disk, pages=1):
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            file.truncate(file.tell() - (pages << 12))

def outcome(use, full, empty):
    # The exit code of a process that uses them, or minus its signal.
    if (child := os.fork()) == 0:
        fill(full)
        with telling(full):
            exec(use)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(json.dumps({name: outcome(use, *map(Path, disks)) for name, use, *disks in json.load(sys.stdin)}))
"""
SPEC = {**ENDLESS, "max_passes": 60, "checkpoint_seconds": 0.2}


@contextmanager
def few_files(pid, more):
    """A process may have so many more files open than it has, for this while."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    # A new file gets the lowest number that is free, which has to be below the limit.
    free = (number for number in count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(free, more, None)), before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_the_api_says_so_and_recovers(service, text):
    api = service.processes.one("-m streamsvm.api")
    requests = (
        ("GET", "/v1/jobs", {}),
        ("GET", "/v1/datasets/data", {}),
        ("POST", "/v1/jobs", {"json": SPEC}),
        ("PUT", "/v1/datasets/other", {"content": text}),
    )
    before, refused, submitted = len(service.get("/v1/jobs")["jobs"]), 0, 0
    with httpx.Client(base_url=service.url, **PLAIN) as client:
        for more in (0, 1, 2, 3):
            # There is a connection before there is no file for another.
            client.get("/v1/jobs")
            with few_files(api, more):
                answers = [client.request(method, path, **body) for method, path, body in requests]
            refused += sum(answer.status_code == 503 for answer in answers)
            submitted += answers[2].status_code == 202
            assert all(answer.is_success or answer.json()["code"] == "unavailable" for answer in answers)
            assert answers[3].status_code == 503  # another process, which takes a few
    assert refused > 4
    assert [dataset["name"] for dataset in service.get("/v1/datasets")["datasets"]] == ["data"]
    assert len(list(service.data_dir.glob("datasets/*"))) == 1
    jobs = service.get("/v1/jobs")["jobs"]
    assert len(jobs) == before + submitted
    assert all(service.wait_until_ended(job["id"])["state"] == "succeeded" for job in jobs)
    service.upload("other", text)


def test_a_worker_without_goes_on_when_there_are_some_again(service):
    undisturbed = weights(service.model(service.train(**SPEC))).tobytes()
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 4)
    worker, log = service.processes.one("streamsvm.service.processes.worker"), service.data_dir.parent / "log"
    told = log.stat().st_size
    with few_files(worker, 0):
        wait_for(lambda: b"tried again" in log.read_bytes()[told:])
    assert weights(service.model(service.wait_until_ended(job))).tobytes() == undisturbed
    assert service.processes.one("streamsvm.service.processes.worker") == worker


def test_a_service_that_can_start_no_worker_is_not_ready_and_tries_again(service):
    api = service.processes.one("-m streamsvm.api")
    with httpx.Client(base_url=service.url, **PLAIN) as client:
        assert client.get("/v2/health/ready").status_code == 200
        with few_files(api, 0):
            os.kill(service.processes.one("streamsvm.service.processes.worker"), signal.SIGKILL)
            wait_for(lambda: client.get("/v2/health/ready").status_code == 503)
        wait_for(lambda: client.get("/v2/health/ready").status_code == 200)
    service.train(**SPEC)


def test_a_full_disk_is_told(tmp_path, small_disk):
    tried = []
    for number, (name, use) in enumerate(USES.items()):
        disks = [str(tmp_path / f"{kind}{number}") for kind in ("full", "empty")]
        for disk in disks:
            small_disk(Path(disk), DISK_BYTES)
        tried.append((name, use, *disks))
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, cwd=ROOT, input=json.dumps(tried), text=True, capture_output=True, check=True)
    assert json.loads(ended.stdout) == dict.fromkeys(USES, OutOfSpace.exit_code), ended.stderr
