"""A backup has everything that is recorded, whatever happens meanwhile."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from streamsvm.service.cli import main
from streamsvm.service.records.backup import back_up
from tests.api.app import Service, some_model


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path / "data")
    model = service.add_model(service.add_dataset("data"), some_model())
    job = service.settings.jobs / service.store.model(model)["job_id"]
    job.mkdir()
    (job / "history.jsonl").write_text("{}\n")
    return service


def backup(service, target, capsys):
    code = main(["backup", str(target), "--data-dir", str(service.settings.data_dir), "--json"])
    return code, json.loads(capsys.readouterr().out)


def restored(target):
    """All views of a service on the copy."""
    service = Service(target)
    models = [service.request("GET", f"/v1/models/{each['id']}/file").content for each in service.store.models()]
    return [service.request("GET", path).json() for path in ("/v1/datasets/data", "/v1/jobs", "/v1/models")], models


def test_a_service_on_the_copy_has_all(service, tmp_path, capsys):
    (service.settings.datasets / ".x.staged").mkdir()
    half = service.store.add_dataset("half")
    (service.settings.datasets / half).mkdir()
    counts = {"datasets": 1, "models": 1, "jobs": 1}
    assert backup(service, tmp_path / "copy", capsys) == (0, {"counts": counts, "missing": []})
    before = restored(service.settings.data_dir)
    shutil.rmtree(service.settings.data_dir)
    assert restored(tmp_path / "copy") == before
    assert main(["doctor", "--data-dir", str(tmp_path / "copy")]) == 0
    assert [path.name for path in (tmp_path / "copy/datasets").iterdir()] == [
        Service(tmp_path / "copy").store.dataset("data")["id"]
    ]


def test_what_is_deleted_or_changed_before_it_is_copied(service, tmp_path, monkeypatch):
    """After the store was copied, a dataset and a model are deleted, and the rows of another dataset change."""
    gone = service.add_dataset("gone")
    service.request("PUT", "/v1/datasets/grows", content=b"1 1:1\n-1 2:1\n")
    copyfile = shutil.copyfile

    def slow(source, target, **options):
        if str(source).endswith("streamsvm.id"):
            monkeypatch.undo()
            assert service.request("DELETE", "/v1/datasets/gone").status_code == 204
            (model,) = service.store.models()
            assert service.request("DELETE", f"/v1/models/{model['id']}").status_code == 204
            assert service.request("POST", "/v1/datasets/grows/blocks", content=b"1 3:1\n").status_code == 201
        return copyfile(source, target, **options)

    monkeypatch.setattr(shutil, "copyfile", slow)
    found = back_up(service.settings, tmp_path / "copy")
    assert found.missing == [] and found.counts == {"datasets": 2, "models": 0, "jobs": 1}
    copy = Service(tmp_path / "copy")
    assert {record["name"] for record in copy.store.datasets()} == {"data", "grows"}
    assert copy.request("GET", "/v1/datasets/grows").json()["rows"] == 3
    assert not (tmp_path / "copy/datasets" / gone).exists()


def test_the_copy_is_not_open_where_the_service_was_not(service, tmp_path):
    service.tokens.new("ada", "admin")
    service.tokens.revoke("ada")
    back_up(service.settings, tmp_path / "copy")
    assert Service(tmp_path / "copy").request("GET", "/v1/models").status_code == 401


def test_what_has_no_files_is_told(service, tmp_path, capsys):
    (model,) = service.store.models()
    shutil.rmtree(service.settings.models / model["id"])
    code, said = backup(service, tmp_path / "copy", capsys)
    assert code == 3 and said["missing"] == [f"models/{model['id']}"]


def test_a_backup_overwrites_nothing_and_is_whole_or_not_there(service, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    assert main(["backup", str(tmp_path / "there"), "--data-dir", str(service.settings.data_dir)]) == 2

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    assert main(["backup", str(tmp_path / "copy"), "--data-dir", str(service.settings.data_dir)]) != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]


@pytest.mark.parametrize("left", [None, b"", b"no database" * 1000])
def test_there_is_no_backup_of_a_store_that_is_not_sound(service, tmp_path, left):
    database = service.settings.database
    database.unlink() if left is None else database.write_bytes(left)
    assert main(["backup", str(tmp_path / "copy"), "--data-dir", str(service.settings.data_dir)]) == 2
    assert not (tmp_path / "copy").exists()


def test_the_store_is_copied_as_of_one_moment(service, tmp_path):
    """An open transaction is not in the copy, and the copy is not damaged."""
    with closing(sqlite3.connect(service.settings.database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM models")
        back_up(service.settings, tmp_path / "copy")
        connection.execute("ROLLBACK")
    assert len(Service(tmp_path / "copy").store.models()) == 1
