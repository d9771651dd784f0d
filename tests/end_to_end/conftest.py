"""Services of tests; whatever happens in a test, no process of it stays."""

import io
import signal
import subprocess
import tempfile

import httpx
import numpy as np
import pytest

from streamsvm.service.cli import main
from streamsvm.service.forks.fork_server import fork_server
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import Processes, Service, running

# Goes on until it is stopped.
ENDLESS = {
    "dataset": "data",
    "tolerance": None,
    "max_passes": 1_000_000,
    "pace": "fixed",
    "cache_bytes": 1 << 17,
}


@pytest.fixture(autouse=True, scope="package")
def answers_are_as_the_document_says():
    """Holds every answer that a test gets against the OpenAPI document: no field is missing, and no other is there."""
    from tests.api.answers import checked  # noqa: PLC0415 - it takes a second, which other folders have no need of

    request = httpx.Client.request
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.Client, "request", lambda *words, **more: checked(request(*words, **more)))
        yield


@pytest.fixture(scope="session")
def problem():
    """(X, y) of 3,000 rows, eight times what the cache of ENDLESS holds; a pass over them takes a tenth of a second."""
    return random_problem(3000, 400)


@pytest.fixture(scope="session")
def text(problem):
    """The problem as LIBSVM text."""
    return libsvm_text(*problem)


@pytest.fixture
def new_service(tmp_path):
    """Makes services that end with the test."""
    made = []

    def make(**settings):
        made.append(Service(tmp_path / f"service{len(made)}", **settings))
        return made[-1]

    yield make
    for service in made:
        service.kill()


@pytest.fixture(scope="module")
def service(tmp_path_factory, text):
    """A running service with the problem as `data`; tests of a module share it."""
    with running(Service(tmp_path_factory.mktemp("service"), max_upload_bytes=64 << 20)) as service:
        service.upload("data", text)
        yield service


@pytest.fixture
def processes(tmp_path):
    """Commands of one test, with a directory of their own for what is temporary."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    processes = Processes(directory)
    yield processes
    processes.kill_all()


@pytest.fixture
def nothing_is_left(processes):
    """Neither a process of a command nor a file among the temporary ones, however the command ends."""
    yield
    assert not processes.alive()
    assert not list(processes.temporary.iterdir())


@pytest.fixture
def run_here(processes, monkeypatch, capfd):
    """Runs the command in this process, where all of it is loaded: as a process it takes a second to load."""
    fork_server()  # before the environment is that of the test's own processes
    monkeypatch.setenv("STREAMSVM_CACHE_DIR", str(processes.temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(processes.temporary))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments):
        words = [str(word) for word in arguments]
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def weights(npz: bytes, name: str = "w") -> np.ndarray:
    """w of a model file, or another of its arrays."""
    with np.load(io.BytesIO(npz)) as arrays:
        return arrays[name]
