"""An upload through connections that are cut at random bytes, and a service that is killed meanwhile."""

import time

import httpx

from streamsvm.service.remote.client import Client
from tests.api.cutting import CuttingProxy
from tests.api.test_resumable import content_of
from tests.end_to_end.service import PLAIN


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

    address = "127.0.0.1", int(service.url.rsplit(":", 1)[1])
    with CuttingProxy(address, 10, len(text), 7) as proxy:
        added = Client(proxy.url, sleep=sleep).add_dataset("data", file)
    assert len(pauses) > 4 and added.view["rows"] == 20 * 3000
    # Nothing is left of the upload that was under way when the service was killed.
    (directory,) = (service.data_dir / "datasets").iterdir()
    cut = content_of(directory)
    httpx.delete(f"{service.url}/v1/datasets/data", **PLAIN).raise_for_status()
    assert content_of(service.upload("data", file.read_bytes())) == cut
