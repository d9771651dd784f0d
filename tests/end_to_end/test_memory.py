"""The memory claim: jobs of one lane or many, and the api process, stay within a limit that the kernel enforces."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest, read_chunks
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service as AppService
from tests.bench.generate import generate
from tests.bench.relabel import relabel
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable, run_command
from tests.end_to_end.service import PLAIN, STREAMSVM, Service, running

CLASSES, FEATURES, LIMIT = 20, 1 << 22, 1 << 30
MIB = 1 << 20
CLAIM_BYTES = 640 * MIB
STATE_BYTES_PER_ROW = 17  # alpha, score, marks
BYTES_PER_ROW = 8 * 270  # decoded, of generated rows, and rather too few
LONGEST_SECONDS = 1200
ROLES = ("streamsvm.reader.stream.process", "streamsvm.trainer.process")


@dataclass(frozen=True)
class Case:
    """
    decoded_bytes  least size of the data as the cache would hold it
    features       length of w, which every process holds besides
    compiled       False: the processes compile their kernels inside of the group, as on the first run of a machine
    """

    decoded_bytes: int
    features: int
    cache_bytes: int
    limit_bytes: int
    compiled: bool


CASES = [
    pytest.param(Case(150 * 10**6, 1 << 20, 32 * MIB, 280 * MIB, True), id="150MB"),
    pytest.param(Case(2 * 10**9, 1 << 22, 128 * MIB, CLAIM_BYTES, True), id="2GB", marks=pytest.mark.slow),
    pytest.param(Case(2 * 10**9, 1 << 22, 128 * MIB, CLAIM_BYTES, False), id="2GB-first-run", marks=pytest.mark.slow),
    pytest.param(Case(10 * 10**9, 1 << 22, 64 * MIB, 512 * MIB, True), id="10GB", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def dataset_of(tmp_path_factory):
    """Makes datasets, each once; (directory, manifest)."""
    made = {}

    def make(decoded_bytes: int, features: int) -> tuple[Path, Manifest]:
        if (decoded_bytes, features) not in made:
            directory = tmp_path_factory.mktemp("data") / "dataset"
            made[decoded_bytes, features] = directory, _ingest_generated(directory, decoded_bytes, features)
        return made[decoded_bytes, features]

    return make


@pytest.fixture
def run_directory():
    """Where the cache of a service would be: in memory, if there is such a place."""
    base = Settings(Path()).cache_dir
    with tempfile.TemporaryDirectory(prefix="streamsvm-test-", dir=base if base.is_dir() else None) as directory:
        yield Path(directory) / "run"


@pytest.mark.parametrize("case", CASES)
def test_a_run_stays_within_the_limit(case, dataset_of, run_directory, tmp_path):
    reason = reason_unusable()
    if reason:
        pytest.skip(reason)
    dataset, manifest = dataset_of(case.decoded_bytes, case.features)
    assert manifest.decoded_bytes >= case.decoded_bytes
    _forget_pages(dataset)
    group = MemoryGroup("run", case.limit_bytes)
    try:
        watch = _Watch(group)
        outcome = _train(case, group, dataset, run_directory, tmp_path, watch)
        peak, oom_kills = group.peak, group.oom_kills
    finally:
        group.remove()
    assert oom_kills == 0
    assert outcome["passes"] == 2
    assert 0 <= outcome["certificate"]["relative_duality_gap"] < 1
    assert peak <= case.limit_bytes
    # The limit has teeth: with the data in place of the cache the run would not have fitted.
    assert peak - case.cache_bytes + manifest.decoded_bytes > case.limit_bytes
    # Pages of libraries are charged to whoever read them first, which was not this group. Even with them it fits.
    assert peak + watch.library_bytes <= CLAIM_BYTES + STATE_BYTES_PER_ROW * manifest.n_rows


def _ingest_generated(directory: Path, decoded_bytes: int, features: int) -> Manifest:
    """A generated dataset whose text is never on disk."""
    pipe = directory.with_name("text")
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(generate, pipe, rows=decoded_bytes // BYTES_PER_ROW, features=features)
        with pipe.open("rb") as text:
            manifest = ingest(read_chunks(text), directory)
        written.result()
    return manifest


def _forget_pages(dataset: Path) -> None:
    """Whoever reads a page first pays for it: make that the run."""
    for block in (dataset / "blocks").iterdir():
        with block.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _train(case: Case, group: MemoryGroup, dataset: Path, run: Path, tmp_path: Path, watch: "_Watch") -> dict:
    spec = {"dataset": "data", "cache_bytes": case.cache_bytes, "tolerance": None, "max_passes": 2}
    (tmp_path / "kernels").mkdir()
    environment = os.environ if case.compiled else {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    launcher = subprocess.Popen(
        [sys.executable, "-m", "tests.end_to_end.cgroup", group.path, dataset, run, tmp_path, json.dumps(spec)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        end = time.monotonic() + LONGEST_SECONDS
        while launcher.poll() is None:
            assert time.monotonic() < end
            watch.look()
            time.sleep(0.02)
        output = launcher.communicate()[0]
        assert launcher.returncode == 0, (tmp_path / "log").read_text()
        return json.loads(output)
    finally:
        # Its children end with it.
        launcher.kill()
        launcher.wait()


class _Watch:
    """The most file pages that reader and trainer had in a group."""

    def __init__(self, group: MemoryGroup) -> None:
        self._group = group
        self._file_pages = dict.fromkeys(ROLES, 0)

    @property
    def library_bytes(self) -> int:
        """File pages mapped by both processes; counted twice where they share them."""
        return sum(self._file_pages.values())

    def look(self) -> None:
        """Take a sample."""
        for pid in self._group.pids:
            self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        fields = dict(line.split(":", 1) for line in status.splitlines())
        for role in ROLES:
            if role in command and "RssFile" in fields:
                self._file_pages[role] = max(self._file_pages[role], int(fields["RssFile"].split()[0]) << 10)


@pytest.mark.slow
def test_twenty_classes_of_four_million_features_in_a_gibibyte(tmp_path):
    if reason := reason_unusable():
        pytest.skip(reason)
    text, model = tmp_path / "text.svm", tmp_path / "model.npz"
    generate(text, size_bytes=300 * 10**6, features=FEATURES)
    relabel(text, CLASSES)
    options = ["--memory", "1GiB", "-e", "none", "--relative-gap", "1e-2", "--json", "-o", model]
    done = run_command("lanes", LIMIT, STREAMSVM, "train", text, *options)
    assert (done.returncode, done.oom_kills) == (0, 0), done.stderr
    assert done.peak <= LIMIT
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lanes = lines[-1]["result"]["lanes"]
    assert len(lanes) == CLASSES and all(lane["relative_duality_gap"] <= 1e-2 for lane in lanes)
    # Side by side, but not all at once: their weights alone would take three gigabytes.
    assert len({lane["class"] for lane in lanes}) == CLASSES
    with np.load(model) as arrays:
        assert arrays["w"].shape[0] == CLASSES and arrays["w"].nbytes > 0.6 * LIMIT


ROOM_AGAIN = """
from threading import Event, Thread
from streamsvm.storage.machine.child import OWN_MEMORY
OWN_MEMORY.bound(64 << 20)
end = Event()
for _ in range(5):  # stacks of 8 MiB
    Thread(target=end.wait, daemon=True).start()
for size in (48, 48, 65):
    try:
        print(len(bytearray(size << 20)) >> 20)
    except MemoryError:
        OWN_MEMORY.renew()
        print("none")
"""


def test_address_space_that_is_not_in_memory_leaves_no_request_without_room():
    told = subprocess.check_output([sys.executable, "-c", ROOM_AGAIN], text=True)
    assert told.split() == ["none", "48", "none"]


def test_what_takes_too_much_memory_of_the_api_is_refused_and_nothing_else(tmp_path):
    """Its bound is its own: the process that forks readers and trainers has none."""
    service = Service(tmp_path, max_api_bytes=400 << 20)
    app = AppService(service.data_dir)
    dataset, about = app.add_dataset("data"), {"loss": "hinge"}
    models = [app.add_model(dataset, Model(np.ones(n), (1.0, -1.0), 1, None, 0.0, about)) for n in (1 << 26, 4)]
    with running(service):
        api, forking = (service.processes.one(what) for what in ("-m streamsvm.api", "forks.forking"))
        bounds = [resource.prlimit(pid, resource.RLIMIT_DATA)[0] for pid in (api, forking)]
        assert bounds[0] != resource.RLIM_INFINITY == bounds[1]

        def predict(model):
            headers = {"Content-Type": "text/libsvm"}
            return httpx.post(f"{service.url}/v1/models/{model}/predict", content=b"1 1:1\n", headers=headers, **PLAIN)

        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(predict, models * 10))
        assert {(answer.status_code, answer.json().get("code")) for answer in answers[::2]} == {(503, "out_of_memory")}
        assert {answer.status_code for answer in answers[1::2]} == {200}
        service.train(dataset="data", max_passes=2)
        assert service.processes.one("-m streamsvm.api") == api
