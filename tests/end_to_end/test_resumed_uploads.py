"""`streamsvm data add` through connections that are cut at random bytes, and a service that is killed meanwhile."""

import hashlib
import time

import httpx

from streamsvm.service.remote.client import Client
from streamsvm.storage.blocks.manifest import read_manifest
from tests.api.cutting import CuttingProxy
from tests.end_to_end.service import PLAIN, Service


def address(service: Service) -> tuple[str, int]:
    return "127.0.0.1", int(service.url.rsplit(":", 1)[1])


def digest(service: Service) -> tuple[str, int]:
    """A hash over every byte of the service's one dataset but its uid, which is drawn; and how many rows it has."""
    (directory,) = (each for each in (service.data_dir / "datasets").iterdir() if not each.name.startswith("."))
    manifest, found = read_manifest(directory), hashlib.sha256()
    for path in sorted(each for each in directory.rglob("*") if each.is_file() and each.name != "manifest.json"):
        found.update(str(path.relative_to(directory)).encode())
        found.update(path.read_bytes().replace(manifest.uid.encode(), b""))
    return found.hexdigest(), manifest.n_rows


def test_a_file_is_whole_though_connections_are_cut_and_the_service_is_killed(new_service, text, tmp_path):
    file = tmp_path / "rows.svm"
    file.write_bytes(20 * text)
    service = new_service().start()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            (name,) = (each["name"] for each in service.get("/v1/datasets")["datasets"])
            assert name == "data"
            service.kill()
            service.start()
        time.sleep(seconds / 5)

    with CuttingProxy(address(service), 10, len(text), 7) as proxy:
        added = Client(proxy.url, sleep=sleep).add_dataset("data", file)
    assert len(pauses) > 4 and added.view["rows"] == 20 * 3000
    # Nothing is left of the upload that was under way when the service was killed.
    assert len(list((service.data_dir / "datasets").iterdir())) == 1
    cut = digest(service)
    httpx.delete(f"{service.url}/v1/datasets/data", **PLAIN).raise_for_status()
    service.upload("data", file.read_bytes())
    assert digest(service) == cut
    # As a command, too.
    file.write_bytes(5 * text)
    with CuttingProxy(address(service), 3, len(text), 1) as proxy:
        done = service.processes.run("data", "add", "command", file, "--url", proxy.url)
        assert (done.returncode, done.stdout[:20]) == (0, b"command: 15,000 rows"), done.stderr
        assert proxy.cuts_left < 3
