"""A client has no more bytes of datasets than it may; what would exceed that leaves nothing behind."""

import pytest

from streamsvm.service.datasets import uploads
from streamsvm.service.datasets.quota import Quota
from streamsvm.storage.blocks.manifest import read_manifest
from tests.api.app import Service, check_problem
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import wait_for

TEXT = libsvm_text(*random_problem(200, 40))


class Clients:
    """A service with such a limit, and tokens of clients."""

    def __init__(self, folder, most: int | None) -> None:
        (folder / "import").mkdir(parents=True)
        (folder / "import" / "rows.svm").write_bytes(TEXT)
        self.service = Service(folder / "data", host="0.0.0.0", max_client_bytes=most, import_dir=folder / "import")
        self.tokens = {name: self.service.tokens.new(name, "admin") for name in ("ada", "bob")}

    def __call__(self, who: str, method: str, url: str, content=None):
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return self.service.request(method, url, headers=headers, content=content)

    def used(self, who: str) -> int:
        return Quota(self.service.settings, self.service.store).used(f"token {who}")


@pytest.fixture(scope="module")
def size(tmp_path_factory):
    """Bytes of the blocks of TEXT."""
    clients = Clients(tmp_path_factory.mktemp("one"), None)
    assert clients("ada", "PUT", "/v1/datasets/one", TEXT).status_code == 201
    (record,) = clients.service.store.datasets()
    stored = read_manifest(clients.service.settings.datasets / record["id"]).stored_bytes
    assert record["bytes"] == clients.used("ada") == stored > 0 == clients.used("bob")
    return stored


def test_each_client_has_a_limit_of_its_own(tmp_path, size):
    clients = Clients(tmp_path, 2 * size - 1)
    assert clients("ada", "PUT", "/v1/datasets/one", TEXT).status_code == 201
    problem = check_problem(clients("ada", "PUT", "/v1/datasets/two", TEXT), "quota_exceeded", 403)
    assert "Delete some" in problem["hint"]
    left = [path.name for path in clients.service.settings.datasets.iterdir()]
    assert left == [clients.service.store.dataset("one")["id"]] and clients.used("ada") == size
    assert clients("bob", "PUT", "/v1/datasets/two", TEXT).status_code == 201
    assert clients("ada", "DELETE", "/v1/datasets/one").status_code == 204
    assert clients("ada", "PUT", "/v1/datasets/one", TEXT).status_code == 201


def test_a_client_that_has_all_is_refused_before_its_body_is_read(tmp_path, size):
    clients = Clients(tmp_path, size)
    assert clients("ada", "PUT", "/v1/datasets/one", TEXT).status_code == 201

    async def unread():
        pytest.fail("it is read")
        yield b""

    for who, method, url in (
        ("ada", "PUT", "/v1/datasets/two"),
        ("ada", "PUT", "/v1/datasets/two?import=rows.svm"),
        ("bob", "POST", "/v1/datasets/one/blocks"),  # whose rows would be ada's
    ):
        check_problem(clients(who, method, url, unread()), "quota_exceeded", 403)
    assert clients("bob", "PUT", "/v1/datasets/two", TEXT).status_code == 201
    assert clients.service.store.dataset("one")["state"] == "ready"


def test_rows_that_are_added_count_for_the_client_of_the_dataset(tmp_path, size):
    clients = Clients(tmp_path, 10 * size)
    clients("ada", "PUT", "/v1/datasets/one", TEXT)
    assert clients("bob", "POST", "/v1/datasets/one/blocks", TEXT).status_code == 201
    assert clients.used("bob") == 0 and size < clients.used("ada") <= 3 * size


def test_an_import_that_exceeds_it_fails(tmp_path, size):
    clients = Clients(tmp_path, size - 1)
    assert clients("ada", "PUT", "/v1/datasets/one?import=rows.svm").status_code == 202
    ended = wait_for(
        lambda: (seen := clients("ada", "GET", "/v1/datasets/one").json())["state"] != "ingesting" and seen
    )
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "quota_exceeded")
    assert not [path for path in clients.service.settings.datasets.iterdir() if path.is_dir()]


def test_an_upload_ends_as_soon_as_it_exceeds_it(tmp_path, size, monkeypatch):
    clients, sent, looks = Clients(tmp_path, size), [], []
    monkeypatch.setattr(uploads, "CHECK_EVERY", 1)
    monkeypatch.setattr(Quota, "used", lambda *_: looks.append(1) or (size + 1) * (len(looks) > 4))

    async def chunks():
        for line in TEXT.splitlines(keepends=True):
            sent.append(line)
            yield line

    check_problem(clients("ada", "PUT", "/v1/datasets/one", chunks()), "quota_exceeded", 403)
    assert 4 <= len(sent) <= 8 and clients.service.store.datasets() == []
