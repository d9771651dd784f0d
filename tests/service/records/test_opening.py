"""With a missing, empty, older, damaged or foreign store, nothing is lost that cannot be made again."""

import json
import logging
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.processes.worker import Worker
from streamsvm.service.records.opening import Soundness, open_store
from streamsvm.service.records.table import _MIGRATIONS
from streamsvm.service.settings import Settings
from tests.api.app import Service, some_model

STORE = "streamsvm.sqlite"


@dataclass
class Directory:
    """A data directory that was in use, and the contents of its store at an earlier time."""

    service: Service
    older: bytes

    @property
    def path(self):
        return self.service.settings.data_dir

    @property
    def store(self):
        return self.path / STORE

    def files(self):
        """What cannot be made again."""
        kinds = ("datasets", "models", "jobs")
        return {path for kind in kinds for path in (self.path / kind).rglob("*") if path.is_file()}


def used(path, name="data"):
    """A data directory with datasets, models and jobs, some of which an older copy of the store does not know."""
    service = Service(path)
    service.tokens.new("ada", "admin")
    _add(service, f"{name}0")
    half = service.store.add_dataset("half")
    older = service.settings.database.read_bytes()
    service.store.drop_dataset(half)
    _add(service, f"{name}1")
    return Directory(service, older)


def _add(service, name):
    model = service.add_model(service.add_dataset(name), some_model())
    job = service.settings.jobs / service.store.model(model)["job_id"]
    job.mkdir()
    (job / "history.jsonl").write_text("{}\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return used(tmp_path_factory.mktemp("made") / "data")


@pytest.fixture
def directory(made, tmp_path):
    shutil.copytree(made.path, tmp_path / "data")
    service = object.__new__(Service)
    service.settings = Settings(tmp_path / "data", tmp_path)
    return Directory(service, made.older)


def start(directory):
    """Open the store as the API and the worker do, one after the other."""
    app = Service(directory.path)
    worker = Worker(app.settings)
    worker.shutdown()
    return app


def refused(directory):
    """The code with which API, worker and the command `token` refuse; nothing has changed."""
    before = {path: path.read_bytes() for path in directory.path.rglob("*") if path.is_file()}
    codes = set()
    for begin in (lambda: Service(directory.path), lambda: Worker(directory.service.settings)):
        with pytest.raises(ServiceError) as caught:
            begin()
        assert caught.value.hint
        codes.add(caught.value.code)
    assert main(["token", "new", "eve", "--data-dir", str(directory.path)]) == 2
    assert {path: path.read_bytes() for path in directory.path.rglob("*") if path.is_file()} == before
    (code,) = codes
    return code


def no_id(directory):
    """Make the directory as an older version left it."""
    (directory.path / "streamsvm.id").unlink()
    if directory.store.exists():
        with closing(sqlite3.connect(directory.store)) as connection:
            connection.execute("DROP TABLE directory")
            connection.commit()


def flip(path, page):
    """Damage a page of the store."""
    data = bytearray(path.read_bytes())
    data[page * 4096 + 8 : page * 4096 + 4000] = b"\xff" * 3992
    path.write_bytes(data)


@pytest.mark.parametrize("is_older", [False, True], ids=["", "of an older version"])
@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_no_store_beside_data_is_no_new_directory(directory, left, is_older):
    if is_older:
        no_id(directory)
    directory.store.unlink() if left is None else directory.store.write_bytes(left)
    assert refused(directory) == "store_missing"


def test_no_store_where_there_were_only_tokens(tmp_path):
    main(["token", "new", "ada", "--data-dir", str(tmp_path)])
    (tmp_path / STORE).unlink()
    with pytest.raises(ServiceError, match="has been used"):
        Service(tmp_path)


def test_a_new_directory_gets_a_store(tmp_path):
    assert Service(tmp_path / "new").store.jobs() == []
    assert start(Directory(Service(tmp_path / "new"), b"")).store.jobs() == []


def test_a_store_without_tables_is_none(directory):
    with closing(sqlite3.connect(directory.path / "other")) as connection:
        connection.execute("VACUUM")
    (directory.path / "other").replace(directory.store)
    assert refused(directory) in ("store_missing", "store_foreign")


@pytest.mark.parametrize("is_older", [False, True], ids=["", "of an older version"])
def test_the_store_of_another_directory_is_refused(directory, tmp_path, is_older):
    other = used(tmp_path / "other", "other")
    if is_older:
        no_id(directory)
        no_id(other)
    shutil.copy(other.store, directory.store)
    assert refused(directory) == "store_foreign"


@pytest.mark.parametrize("is_older", [False, True], ids=["", "of an older version"])
def test_a_store_without_its_data_is_refused(directory, tmp_path, is_older):
    if is_older:
        no_id(directory)
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(directory.store, tmp_path / "elsewhere" / STORE)
    directory.service.settings = Settings(tmp_path / "elsewhere", tmp_path)
    assert refused(directory) == "store_foreign"


@pytest.mark.parametrize("page", [0, 2, 5])
def test_a_damaged_store_is_refused(directory, page):
    flip(directory.store, page)
    assert refused(directory) == "store_corrupt"


@pytest.mark.parametrize("word", [b"datasets", b"models", b"alias_moves", b"CREATE TABLE", b"name TEXT"])
def test_a_store_in_whose_schema_a_bit_has_flipped_is_refused(directory, word):
    """SQLite's message names what it cannot read, in bytes that are no UTF-8 then: that was a traceback."""
    data = directory.store.read_bytes()
    for ending in ("-wal", "-shm"):
        (directory.path / f"{STORE}{ending}").unlink(missing_ok=True)
    place = data.index(word, 100) + 2
    directory.store.write_bytes(data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :])
    assert refused(directory) == "store_corrupt"


def test_text_is_no_store(directory):
    directory.store.write_bytes(b"no database" * 1000)
    assert refused(directory) == "store_corrupt"


@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
def test_a_directory_in_the_place_of_a_file_of_the_store(directory, ending):
    place = directory.path / f"{STORE}{ending}"
    place.unlink(missing_ok=True)
    place.mkdir()
    assert refused(directory) == "store_corrupt"


@pytest.mark.parametrize(
    "change",
    ["DROP TABLE models", "DROP TABLE jobs; CREATE TABLE jobs (x)", "DROP TABLE datasets"]
    + [f"DROP TABLE {name}" for name in ("predictions", "request_keys", "alias_moves")],
)
def test_a_store_of_other_tables_is_refused(directory, change):
    with closing(sqlite3.connect(directory.store)) as connection:
        connection.executescript(change)
    assert refused(directory) == "store_corrupt"


def set_version(directory, version):
    with closing(sqlite3.connect(directory.store)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()


def test_a_store_of_a_newer_version_is_refused(directory):
    set_version(directory, 999)
    assert refused(directory) == "unknown_version"


@pytest.mark.parametrize("version", [-5, *range(len(_MIGRATIONS))])
def test_a_store_with_the_number_of_another_version_is_damaged(directory, version):
    """Tables that are there already were to be made again, and that was taken for a fault of the disk."""
    set_version(directory, version)
    assert refused(directory) == "store_corrupt"
    with pytest.raises(ServiceError, match=f"version {version}"):
        Service(directory.path)


def test_a_store_that_has_notifications_due_opens_and_forgets_them(tmp_path):
    """Such as 0.2.0 left them; its stores have version 10."""
    settings = Settings(tmp_path, tmp_path)
    with closing(sqlite3.connect(settings.database)) as connection:
        connection.executescript("".join(_MIGRATIONS[:10]))
        query = "INSERT INTO jobs (id, dataset_id, spec, state, created_at, transitions) VALUES (?, '', '{}', ?, '', ?)"
        ended = {"state": "succeeded", "lost_seconds": 0.1}
        told = {"notified": {"state": "waiting"}, "tracking": {"state": "logged"}}
        steps = [{"state": "queued"}, {**ended, **told}]
        for number, text in enumerate((json.dumps(steps), '[{"tracking": NaN}]', '[3, "tracking')):
            connection.execute(query, (f"job_{number}", "succeeded", text))
        connection.execute("INSERT INTO notifications VALUES ('ntf_1', 'job_1', 'http://h/x', 'h', '{}', 0, 3, 0)")
        connection.execute("PRAGMA user_version = 10")
        connection.commit()
    for _ in range(2):
        store = open_store(settings)
        assert store.job("job_0")["transitions"] == [{"state": "queued"}, ended]
        assert len(store.jobs()) == 3  # damaged records are no hindrance
        assert store._database.rows("SELECT * FROM sqlite_master WHERE name = 'notifications'") == []


def test_a_store_without_a_column_is_damaged(directory):
    with closing(sqlite3.connect(directory.store)) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN client")
        connection.commit()
    assert refused(directory) == "store_corrupt"
    with pytest.raises(ServiceError, match="no column client in table jobs"):
        Service(directory.path)


@pytest.mark.parametrize("left", [b"", b"\xff\xfe" * 40, b"../../x"])
def test_a_damaged_id_is_written_anew(directory, left):
    kept = (directory.path / "streamsvm.id").read_bytes()
    (directory.path / "streamsvm.id").write_bytes(left)
    assert len(start(directory).store.datasets()) == 2
    assert (directory.path / "streamsvm.id").read_bytes() == kept


@pytest.mark.parametrize("name", ["worker.lock", "streamsvm.id", "datasets"])
def test_what_is_in_the_place_of_something_else_is_named(tmp_path, name):
    if name == "datasets":
        (tmp_path / name).touch()
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(ServiceError, match=name) as caught:
        Worker(Settings(tmp_path, tmp_path))
    assert caught.value.code == "data_dir_unusable" and caught.value.hint


def test_what_an_older_store_does_not_know_stays_and_is_told(directory, caplog):
    before = directory.files()
    directory.store.write_bytes(directory.older)
    with caplog.at_level(logging.WARNING):
        service = start(directory)
    assert before <= directory.files()
    assert any("have no record and stay" in record.message for record in caplog.records)
    assert [record["name"] for record in service.store.datasets()] == ["data0"]


def test_a_dataset_that_was_being_read_in_when_the_store_was_copied_is_there(directory):
    service = Service(directory.path)
    dataset_id = service.store.add_dataset("later")
    older = directory.store.read_bytes()
    service.store.drop_dataset(dataset_id)
    shutil.copytree(next((directory.path / "datasets").iterdir()), directory.path / "datasets" / dataset_id)
    directory.store.write_bytes(older)
    assert start(directory).store.dataset("later")["state"] == "ready"


@pytest.mark.parametrize("kind", ["datasets", "models", "jobs"])
def test_what_was_to_go_goes(directory, kind):
    service = Service(directory.path)
    path = next(path for path in sorted((directory.path / kind).iterdir()) if path.is_dir())
    (path.parent / f".{path.name}.unrecorded").touch()
    start(directory)
    assert path.exists()  # it is on record
    (path.parent / f".{path.name}.unrecorded").touch()
    (path.parent / ".x.staged").mkdir()
    (path.parent / "..x.unrecorded.0123.tmp").touch()
    with service.store._database.write() as connection:
        connection.execute(f"DELETE FROM {kind} WHERE id = ?", (path.name,))
    start(directory)
    assert not path.exists() and list(path.parent.glob(".*")) == []


def test_one_store_is_made_by_many_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_store, [Settings(tmp_path / "data", tmp_path)] * 8))
    assert open_store(Settings(tmp_path / "data", tmp_path)).jobs() == []


def doctor(directory, capsys, *options):
    """Exit code and output."""
    code = main(["doctor", "--data-dir", str(directory.path), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_the_doctor_says_that_there_is_no_store_and_what_is_there(directory, capsys):
    directory.store.unlink()
    code, said = doctor(directory, capsys)
    assert code == 3 and [found["code"] for found in said["findings"]] == ["store_missing"] + 6 * ["stray"]


def test_strays_are_put_aside_when_asked_for(directory, capsys):
    directory.store.write_bytes(directory.older)
    contents = sorted(path.read_bytes() for path in directory.files())
    moved = doctor(directory, capsys, "--put-aside")[1]["done"]
    assert len(moved) == 3 and all("/aside/" in path for path in moved)
    aside = {path for path in (directory.path / "aside").rglob("*") if path.is_file()}
    assert sorted(path.read_bytes() for path in directory.files() | aside) == contents
    assert doctor(directory, capsys) == (0, {"sound": True, "findings": []})


def test_what_was_put_aside_before_stays_beside_what_comes_later(directory, capsys):
    directory.store.write_bytes(directory.older)
    shutil.copytree(directory.path / "models", directory.path / "aside/models")
    contents = sorted(path.read_bytes() for path in directory.path.rglob("*.json"))
    moved = doctor(directory, capsys, "--put-aside")[1]["done"]
    assert len(moved) == 3 and sum(path.endswith(".2") for path in moved) == 1
    assert sorted(path.read_bytes() for path in directory.path.rglob("*.json")) == contents


@pytest.mark.parametrize("is_file", [True, False], ids=["a file", "a link to nothing"])
def test_what_cannot_be_put_aside_is_named_and_keeps_nothing_else_from_it(directory, capsys, is_file):
    directory.store.write_bytes(directory.older)
    in_the_way = directory.path / "aside/models"
    in_the_way.parent.mkdir()
    in_the_way.write_text("mine") if is_file else in_the_way.symlink_to("nowhere")
    files = directory.files()
    assert main(["doctor", "--data-dir", str(directory.path), "--put-aside"]) == 2
    said = capsys.readouterr().err
    assert "[not_put_aside]" in said and str(in_the_way) in said and "2 are put aside, 1 are not" in said
    assert {path.relative_to(directory.path).parts[0] for path in files - directory.files()} == {"datasets", "jobs"}


def test_nothing_is_put_aside_without_the_right_store(directory, capsys):
    directory.store.unlink()
    before = directory.files()
    assert main(["doctor", "--data-dir", str(directory.path), "--put-aside"]) == 2
    assert directory.files() == before and not directory.store.exists()


@pytest.mark.parametrize("left", ["older", "missing"])
def test_strays_are_adopted_when_asked_for(directory, capsys, left):
    before = {path: path.read_bytes() for path in directory.files()}
    names = {path.name for kind in ("datasets", "models") for path in (directory.path / kind).iterdir()}
    directory.store.unlink() if left == "missing" else directory.store.write_bytes(directory.older)
    assert doctor(directory, capsys, "--adopt")[0] == 0
    service = start(directory)
    assert {path: path.read_bytes() for path in directory.files()} == before
    datasets, models = service.store.datasets(), service.store.models()
    assert {record["id"] for record in (*datasets, *models)} == names
    headers = {"Authorization": f"Bearer {service.tokens.new('bob', 'admin')}"}
    files = (f"/v1/models/{record['id']}/file" for record in models)
    for page in ("/", "/v1/models", *files, *(f"/v1/datasets/{record['name']}" for record in datasets)):
        assert service.request("GET", page, headers=headers).status_code == 200


def test_nothing_is_moved_while_a_service_runs(directory):
    worker = Worker(directory.service.settings)
    for option in ("--adopt", "--put-aside"):
        assert main(["doctor", "--data-dir", str(directory.path), option]) == 2
    worker.shutdown()


def test_an_adopted_dataset_has_the_name_its_models_know(tmp_path, capsys):
    service = Service(tmp_path / "data")
    dataset_id = service.add_dataset("mine")
    uid = service.request("GET", "/v1/datasets/mine").json()["uid"]
    service.add_model(dataset_id, replace(some_model(), about={"dataset": {"name": "mine", "uid": uid}}))
    service.settings.database.unlink()
    assert main(["doctor", "--data-dir", str(tmp_path / "data"), "--adopt"]) == 0
    assert Service(tmp_path / "data").request("GET", "/v1/datasets/mine").json()["uid"] == uid


def test_a_running_service_says_what_is_wrong_with_its_store(directory):
    service = Service(directory.path)
    token = service.tokens.new("bob", "admin")

    def asked(path):
        response = service.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return response.status_code, response.json().get("code")

    assert asked("/v1/jobs") == (200, None) and asked("/v2/health/ready") == (200, None)
    kept = directory.store.read_bytes()
    directory.store.unlink()
    assert {asked(path) for path in ("/v1/jobs", "/v1/datasets", "/v1/models")} == {(503, "store_missing")}
    assert asked("/v2/health/ready") == (503, "unavailable") and not directory.store.exists()
    directory.store.write_bytes(b"no database" * 1000)
    assert {asked(path) for path in ("/v1/jobs", "/v1/datasets", "/v1/models")} == {(500, "store_corrupt")}
    assert asked("/v2/health/ready") == (503, "unavailable")
    directory.store.write_bytes(kept)
    assert asked("/v1/jobs") == (200, None) and asked("/v2/health/ready") == (200, None)


def test_readiness_reads_the_whole_store_now_and_then(directory):
    times = iter([0.0, 10.0, 40.0, 40.0])
    service = Service(directory.path)
    soundness = Soundness(service.settings, service.store, 30.0, lambda: next(times))
    flip(directory.store, 5)
    soundness.check()  # not yet: what it asks for is well
    with pytest.raises(ServiceError, match="damaged"):
        soundness.check()


def test_a_store_that_was_made_anew_is_not_open(directory, capsys):
    directory.store.unlink()
    assert doctor(directory, capsys, "--adopt")[0] == 0
    assert Service(directory.path).request("GET", "/v1/models").status_code == 401


def test_what_may_not_be_deleted_is_not_marked(tmp_path):
    service = Service(tmp_path / "data")
    dataset_id = service.add_dataset("data")
    job = service.store.add_job(dataset_id, {"dataset": "data"})
    assert service.request("DELETE", "/v1/datasets/data").json()["code"] == "dataset_in_use"
    assert service.request("DELETE", f"/v1/jobs/{job}").json()["code"] == "not_possible"
    assert not list((tmp_path / "data").glob("*/.*"))
