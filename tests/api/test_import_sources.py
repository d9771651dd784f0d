"""PUT /v1/datasets/{name}?import=s3://...: what the service allows, in the background, and nobody's keys anywhere."""

import sqlite3

import pytest

from streamsvm.service.datasets import importing
from streamsvm.service.settings import Settings
from tests import s3 as stores
from tests.api.app import Service, check_problem
from tests.api.test_imports import TEXT, wait_for_state


@pytest.fixture
def importing_service(tmp_path, s3):
    (tmp_path / "data").mkdir()
    return Service(tmp_path / "data", import_sources=("s3://bucket/", "s3://other/part"))


def begin(service, name, source):
    answer = service.request("PUT", f"/v1/datasets/{name}?import={source}")
    assert answer.status_code == 202, answer.text
    return answer.json()


def failure(service, name):
    found = wait_for_state(service, name, "failed")["failure"]
    assert found["hint"]
    return found


def test_files_are_read_in_in_the_background(importing_service, s3):
    for day in (1, 2):
        s3.put(f"bucket/day={day}/part-0.svm", TEXT)
    shown = begin(importing_service, "d", "s3://bucket/day=*/part-*.svm")
    assert (shown["state"], shown["import"]) == ("ingesting", "s3://bucket/day=*/part-*.svm")
    shown = wait_for_state(importing_service, "d", "ready")
    assert (shown["rows"], shown["input_bytes"], shown["failure"]) == (4, 2 * len(TEXT), None)


FORBIDDEN = (
    ["s3://bucket2/a", "s3://other/a", "s3://other/partly", "s3://buck*/a", "gs://bucket/a", "az://bucket/a",
     "file:///etc/passwd", "file://localhost/etc/passwd", "s3://bucket/../other/a", "s3://bucket/./a", "http://host/a",
     "https://169.254.169.254/latest", "s3://bucket@host/a", "s3://bucket:9000/a", "s3://user:hunter2@bucket/a",
     "s3://bucket/a%3FX-Amz-Signature=hunter2", "s3://bucket", "s3://bucket/", "s3://", "memory://bucket/a"]
)  # fmt: skip


def test_what_is_not_allowed_is_asked_of_nobody(importing_service):
    codes = ("import_forbidden", "source_invalid", "source_credentials", "source_scheme")
    for source in FORBIDDEN:
        found = importing_service.request("PUT", f"/v1/datasets/d?import={source}")
        assert check_problem(found, found.json()["code"])["code"] in codes, source
        assert found.status_code == (403 if found.json()["code"] == "import_forbidden" else 422), source
        assert "hunter2" not in found.text
        assert not importing_service.store.datasets(), source


def test_without_the_setting_none_is_allowed_and_the_answer_names_it(service):
    found = check_problem(service.request("PUT", "/v1/datasets/d?import=s3://bucket/a"), "import_forbidden", 403)
    assert "STREAMSVM_IMPORT_SOURCES" in found["hint"]


def test_the_setting_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("STREAMSVM_IMPORT_SOURCES", "s3://bucket/, gs://other/")
    assert Settings.from_environment().import_sources == ("s3://bucket/", "gs://other/")


def test_a_bad_line_is_told_with_its_file(importing_service, s3):
    s3.put("bucket/a.svm", TEXT)
    s3.put("bucket/b.svm", b"1 1:1\nspam\n")
    begin(importing_service, "d", "s3://bucket/*.svm")
    found = failure(importing_service, "d")
    assert (found["code"], found["at"]["file"], found["at"]["line"]) == ("bad_label", "s3://bucket/b.svm", 2)
    assert "s3://bucket/b.svm, line 2: " in importing_service.request("GET", "/").text
    assert "s3://bucket/b.svm, line 2: " in importing_service.request("GET", "/datasets/d").text


def test_what_is_no_longer_allowed_is_not_begun_anew(importing_service, s3, tmp_path, monkeypatch):
    s3.put("bucket/a.svm", TEXT)
    with monkeypatch.context() as patched:
        patched.setattr(importing.Importer, "wake", lambda self: None)
        begin(importing_service, "d", "s3://bucket/a.svm")
    assert failure(Service(tmp_path / "data"), "d")["code"] == "import_forbidden"


def test_keys_are_nowhere(importing_service, s3, tmp_path, monkeypatch, capfd, caplog):
    """Neither the right ones nor wrong ones: not in answers, in records, in files, in logs."""
    s3.put("bucket/a.svm", TEXT)
    key, secret = s3.let_in_one()
    caplog.set_level("DEBUG")
    answers = []
    for name, given, state in (
        ("right", (key, secret), "ready"),
        ("wrong", (key, "hunter2secret"), "failed"),
        ("unknown", ("AKIAUNKNOWNUNKNOWN22", "hunter2secret"), "failed"),
    ):
        stores.use(monkeypatch, s3.environment(key=given[0], secret=given[1]))
        begin(importing_service, name, "s3://bucket/a.svm")
        answers.append(str(wait_for_state(importing_service, name, state)))
    assert "source_denied" in answers[1] and "source_denied" in answers[2]
    in_url = "s3://AKIAUNKNOWNUNKNOWN22:hunter2@bucket/a.svm"
    answers.append(importing_service.request("PUT", f"/v1/datasets/d?import={in_url}").text)
    answers += [importing_service.request("GET", path).text for path in ("/v1/datasets", "/", "/metrics")]
    for connection in (sqlite3.connect(importing_service.settings.database),):
        answers.append("\n".join(connection.iterdump()))
        connection.close()
    answers += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    answers += capfd.readouterr()
    # All but those of the test's own clients.
    ours = [vars(record) for record in caplog.records if record.name.split(".")[0] not in ("httpx", "httpcore")]
    assert any(record["name"] == "streamsvm.api" for record in ours)
    answers += map(str, ours)
    for secret_text in (key, secret, "hunter2", "AKIAUNKNOWN"):
        assert not [answer[:500] for answer in answers if secret_text in answer]
