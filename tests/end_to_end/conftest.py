"""Services of tests; whatever happens in a test, no process of it stays."""

import io

import numpy as np
import pytest

from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import Processes, Service

# Goes on until it is stopped.
ENDLESS = {
    "dataset": "data",
    "tolerance": None,
    "max_passes": 1_000_000,
    "pace": "fixed",
    "cache_bytes": 1 << 17,
}


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
    service = Service(tmp_path_factory.mktemp("service"), max_upload_bytes=64 << 20)
    try:
        service.start().upload("data", text)
        yield service
    finally:
        service.kill()


@pytest.fixture
def processes(tmp_path):
    """Commands of one test, with a directory of their own for what is temporary."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    processes = Processes(directory)
    yield processes
    processes.kill_all()


def weights(npz: bytes) -> np.ndarray:
    """w of a model file."""
    with np.load(io.BytesIO(npz)) as arrays:
        return arrays["w"]
