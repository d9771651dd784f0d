"""The cache is disposable: whatever happens to its files costs an attempt at most, never the model."""

import os

import pytest

from tests.end_to_end.conftest import ENDLESS, weights

SPEC = {**ENDLESS, "max_passes": 15}


def lost_tail(run):
    """Reading beyond the end of a mapped file kills a process by signal 7."""
    os.truncate(run / "cache", 1 << 14)


def zeros(run):
    with (run / "cache").open("r+b") as file:
        file.write(bytes((run / "cache").stat().st_size))


def files_gone(run):
    for path in run.glob("cache*"):
        path.unlink()


@pytest.fixture(scope="module")
def undisturbed(service):
    return weights(service.model(service.train(**SPEC))).tobytes()


@pytest.mark.parametrize("happens", [files_gone, lost_tail, zeros], ids=lambda f: f.__name__)
def test_the_model_is_the_same(service, undisturbed, happens):
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 4)
    (run,) = service.cache_dir.iterdir()
    happens(run)
    ended = service.wait_until_ended(job)
    assert weights(service.model(ended)).tobytes() == undisturbed
    # Who has a file open does not need its name.
    assert ended["attempt"] == (1 if happens is files_gone else 2)
