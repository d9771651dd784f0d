"""The doctor names what is damaged, and only that; a backup has everything that is recorded."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from streamsvm.service.cli import main
from streamsvm.service.records.doctor import back_up
from streamsvm.storage.run.checkpoint import SLOTS, write_checkpoint
from tests.api.app import Service, some_model


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A data directory with two datasets, a model, and a job with a checkpoint."""
    service = Service(tmp_path_factory.mktemp("sound") / "data")
    service.add_dataset("other")
    model = service.add_model(service.add_dataset("data"), some_model())
    job = service.settings.jobs / service.store.model(model)["job_id"]
    job.mkdir()
    write_checkpoint(job / SLOTS[0], {"number": 1}, {})
    return service.settings.data_dir


@pytest.fixture
def data_dir(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "data")
    return tmp_path / "data"


def doctor(data_dir, capsys, *command):
    """Exit code, whether it is sound, and {(kind, code): message}."""
    code = main([*(command or ("doctor",)), "--data-dir", str(data_dir), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (code == 0) == said["sound"] and code in (0, 3)
    return {(found["kind"], found["code"]): found for found in said["findings"]}


def one(data_dir, pattern):
    return sorted(data_dir.glob(pattern))[0]


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


HARMS = {
    "flip": damage,
    "tail": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "gone": lambda path: path.unlink(),
}


def test_nothing_is_said_of_a_sound_directory(data_dir, capsys):
    assert doctor(data_dir, capsys) == {}
    assert main(["doctor", "--data-dir", str(data_dir)]) == 0
    assert capsys.readouterr().out == "sound\n"


@pytest.mark.parametrize(
    ("pattern", "kind", "code", "said"),
    [
        ("datasets/*/blocks/*.blk", "dataset", "dataset_corrupt", "block 0"),
        ("datasets/*/manifest.json", "dataset", "dataset_corrupt", "manifest"),
        ("models/*/w.npy", "model", "corrupt_data", ""),
        ("models/*/model.json", "model", "corrupt_data", "model"),
        ("jobs/*/checkpoint.0", "checkpoint", "corrupt_data", "checkpoint"),
    ],
)
@pytest.mark.parametrize("harm", HARMS)
def test_damage_is_named(data_dir, capsys, pattern, kind, code, said, harm):
    path = one(data_dir, pattern)
    if harm == "gone" and kind == "checkpoint":
        path.unlink()
        assert doctor(data_dir, capsys) == {}  # a job need not have one
        return
    HARMS[harm](path)
    found = doctor(data_dir, capsys)
    assert list(found) == [(kind, code)]
    assert said in found[kind, code]["message"]


def test_a_damaged_store_is_named(data_dir, capsys):
    (data_dir / "streamsvm.sqlite").write_bytes(b"no database" * 1000)
    assert list(doctor(data_dir, capsys)) == [("store", "store_corrupt")]


@pytest.mark.parametrize("path", ["datasets/.x.staged/a", "models/mdl_x/a", "jobs/job_x/a"])
def test_what_belongs_to_nothing_is_named_and_no_damage(data_dir, capsys, path):
    (data_dir / path).parent.mkdir()
    (data_dir / path).touch()
    found = doctor(data_dir, capsys)
    assert {code for _, code in found} == {"stray"}


def test_a_block_that_is_not_in_the_manifest_is_a_stray(data_dir, capsys):
    block = one(data_dir, "datasets/*/blocks/*.blk")
    shutil.copy(block, block.with_name("000007.blk"))
    found = doctor(data_dir, capsys)
    assert found["dataset", "stray"]["name"].endswith("000007.blk")


def test_verify_looks_at_the_dataset_it_is_asked_for(data_dir, capsys):
    damaged, other = sorted(data_dir.glob("datasets/*"))
    damage(one(damaged, "blocks/*"))
    names = {record["id"]: record["name"] for record in Service(data_dir).store.datasets()}
    assert list(doctor(data_dir, capsys, "data", "verify", names[damaged.name])) == [("dataset", "dataset_corrupt")]
    assert doctor(data_dir, capsys, "data", "verify", names[other.name]) == {}
    assert main(["data", "verify", "unknown", "--data-dir", str(data_dir)]) == 2


def files(data_dir):
    """Bytes of all files but the store, whose header counts how often it was opened to write."""
    return {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file() and path.suffix != ".sqlite"}


def test_looking_changes_nothing(data_dir, capsys):
    damage(one(data_dir, "datasets/*/blocks/*.blk"))
    before = files(data_dir)
    doctor(data_dir, capsys)
    assert files(data_dir) == before


def test_no_data_directory_is_no_sound_one(tmp_path, capsys):
    assert main(["doctor", "--data-dir", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()


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
