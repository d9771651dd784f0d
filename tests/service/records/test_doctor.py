"""The doctor names what is damaged, and only that."""

import json
import shutil

import pytest

from streamsvm.service.cli import main
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
