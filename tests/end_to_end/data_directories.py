"""Data directories as versions left them: those that are kept beside the repository, and one of this version.

To keep one of a new version, run the tests with a place for it, and put the file beside the others:

    KEEP_DATA_DIRECTORY=../shared/data pytest tests/end_to_end/test_data_directories.py

The file is named after the version, and a line in VERSIONS adds it to the tests.
"""

import os
import signal
import tarfile
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import zstandard

from tests.end_to_end.service import PLAIN, Service, wait_for
from tests.reference.data import DATA, require, text

THIS = "this version"
VERSIONS = ("0.1.0", THIS)
# Neither ends before it is told to: the cache holds a fifth of a9a, and 1e-9 is far.
_LONG = {"dataset": "a9a", "pace": "fixed", "tolerance": 1e-9, "cache_bytes": 1 << 20, "checkpoint_seconds": 1.0}
_QUICK = {"dataset": "mushrooms", "cache_bytes": 4 << 20}


def lay_out(name: str, service: Service) -> None:
    """Put the data directory of a version where a service to be started will find it; skips if it is not here."""
    for dataset in ("mushrooms", "a9a"):
        require(dataset)
    if name == THIS:
        _make(service)
        if kept := os.environ.get("KEEP_DATA_DIRECTORY"):
            _pack(service.data_dir, Path(kept) / _file(version("streamsvm")))
    else:
        unpack(name, service.data_dir)


def _file(name: str) -> str:
    return f"datadir-{name}.tar.zst"


def _make(service: Service) -> None:
    """Two datasets; jobs that have succeeded, was stopped, was handed back, is queued; and the service has ended."""
    service.start()
    _put(service, "mushrooms", text("mushrooms"))
    _put(service, "a9a?normalize=row_l2", text("a9a"))
    more = httpx.post(f"{service.url}/v1/datasets/mushrooms/blocks", content=text("mushrooms"), **PLAIN)
    assert more.status_code == 201, more.text
    dcd = {"solver": "dcd", "loss": "squared_hinge", "bias": 1.0, "class_weight": {"1": 2.0}, "max_passes": 20}
    for spec in (_QUICK, {"dataset": "mushrooms", **dcd}):
        service.train(**spec)
    stopped = service.submit(**_LONG, C=100.0, max_passes=100_000)
    service.wait_for_pass(stopped, 3)
    httpx.post(f"{service.url}/v1/jobs/{stopped}/stop", **PLAIN)
    assert service.wait_until_ended(stopped)["state"] == "stopped"
    service.wait_for_pass(service.submit(**_LONG, C=10.0, max_passes=400), 4)
    service.submit(**_QUICK, C=0.1)
    service.signal(signal.SIGTERM)
    assert service.wait(30) == 0
    wait_for(lambda: not service.processes.alive())


def _put(service: Service, where: str, content: bytes) -> None:
    answer = httpx.put(f"{service.url}/v1/datasets/{where}", content=content, **PLAIN)
    assert answer.status_code == 201, answer.text


def _pack(directory: Path, path: Path) -> None:
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor(19).stream_writer(file) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        archive.add(directory, ".")


def unpack(name: str, directory: Path) -> None:
    """Unpack what is kept of a version into a directory; skips if it is not here."""
    path = DATA / _file(name)
    if not path.is_file():
        pytest.skip(f"data directory {path.name} is not available")
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as unpacked,
        tarfile.open(fileobj=unpacked, mode="r|") as archive,
    ):
        archive.extractall(directory, filter="tar")  # a run directory is a link to another disk
