"""PUT /v1/datasets/{name}?import=FILE: files of the import directory and no others, in the background."""

import os
import time

import pytest

from streamsvm.service.datasets import importing
from tests.api.app import Service, check_problem
from tests.end_to_end.service import wait_for

TEXT = b"1 1:0.5 3:1\n-1 2:1\n"


@pytest.fixture
def importing_service(tmp_path):
    """With an import directory beside its data, and a file outside of it."""
    (tmp_path / "import" / "2024").mkdir(parents=True)
    (tmp_path / "import" / "train.svm").write_bytes(TEXT)
    (tmp_path / "import" / "2024" / "train.csv").write_bytes(b"label;a\n1;2\n-1;3\n")
    (tmp_path / "outside.svm").write_bytes(TEXT)
    (tmp_path / "data").mkdir()
    return Service(tmp_path / "data", import_dir=tmp_path / "import")


def wait_for_state(service, name, state, seconds=60):
    end = time.monotonic() + seconds
    while (shown := service.request("GET", f"/v1/datasets/{name}").json())["state"] != state:
        assert shown["state"] == "ingesting", shown
        assert time.monotonic() < end
        time.sleep(0.02)
    return shown


def test_a_file_is_read_in_in_the_background(importing_service):
    request = importing_service.request
    answer = request("PUT", "/v1/datasets/d?import=train.svm")
    assert (answer.status_code, answer.json()["state"], answer.json()["import"]) == (202, "ingesting", "train.svm")
    assert request("PUT", "/v1/datasets/e?import=2024/train.csv&delimiter=;&index_base=0").status_code == 202
    shown = wait_for_state(importing_service, "d", "ready")
    assert (shown["rows"], shown["non_zeros"], shown["input_bytes"], shown["failure"]) == (2, 3, len(TEXT), None)
    assert wait_for_state(importing_service, "e", "ready")["index_base"] == 0
    check_problem(request("PUT", "/v1/datasets/d?import=train.svm"), "dataset_exists", 409)


OUTSIDE = (
    ["..", ".", "/", "../outside.svm", "2024/../../outside.svm", "2024/../train.svm", "./train.svm", "/etc/passwd",
     "link.svm", "up/outside.svm", "2024", "2024/", "//train.svm", "train.svm%00", "pipe", "a%0Ab", "%ED%A0%80"]
)  # fmt: skip


def test_names_that_leave_the_directory_or_are_no_files(importing_service, tmp_path):
    (tmp_path / "import" / "link.svm").symlink_to(tmp_path / "import" / "train.svm")
    (tmp_path / "import" / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "import" / "pipe")
    for name in OUTSIDE:
        found = importing_service.request("PUT", f"/v1/datasets/d?import={name}")
        check_problem(found, found.json()["code"], found.status_code)
        assert (found.json()["code"], found.status_code) in (("import_invalid", 422), ("unknown_file", 404)), name
        assert str(tmp_path) not in found.text
        assert not importing_service.store.datasets(), name


def test_a_file_that_is_not_there(importing_service):
    for name in ("nothing.svm", "train.svm/x", "nowhere/train.svm", "x" * 300):
        check_problem(importing_service.request("PUT", f"/v1/datasets/d?import={name}"), "unknown_file", 404)
    check_problem(importing_service.request("PUT", "/v1/datasets/D?import=train.svm"), "name_invalid", 422)


def test_without_an_import_directory(service):
    check_problem(service.request("PUT", "/v1/datasets/d?import=train.svm"), "import_disabled", 422)


def test_a_bad_file_is_told_and_its_name_is_free(importing_service, tmp_path):
    (tmp_path / "import" / "bad.svm").write_bytes(b"1 1:1\nspam 1:1\n")
    request = importing_service.request
    request("PUT", "/v1/datasets/d?import=bad.svm")
    request("PUT", "/v1/datasets/deleted?import=bad.svm")
    shown = wait_for_state(importing_service, "d", "failed")
    assert (shown["failure"]["code"], shown["failure"]["at"]["line"]) == ("bad_label", 2)
    assert shown["failure"]["hint"]
    wait_for_state(importing_service, "deleted", "failed")
    wait_for(lambda: not list(importing_service.settings.datasets.iterdir()))
    assert request("DELETE", "/v1/datasets/deleted").status_code == 204
    check_problem(request("GET", "/v1/datasets/deleted"), "unknown_dataset", 404)
    check_problem(request("POST", "/v1/jobs", json={"dataset": "d"}), "not_ready", 409)
    assert request("PUT", "/v1/datasets/d", content=TEXT).status_code == 201
    assert request("GET", "/v1/datasets/d").json()["import"] is None


def test_one_that_is_under_way_can_be_given_up(importing_service, tmp_path):
    large = tmp_path / "import" / "large.svm"
    with large.open("wb") as file:
        for _ in range(60):
            file.write(
                b"".join(b"%d %d:0.123456 %d:1.5\n" % (k % 2, k % 977 + 1, k % 991 + 1000) for k in range(20_000))
            )
    importing_service.request("PUT", "/v1/datasets/d?import=large.svm")
    while not (shown := importing_service.request("GET", "/v1/datasets/d").json())["progress"]:
        assert shown["state"] == "ingesting"
        time.sleep(0.01)
    progress = shown["progress"]
    assert 0 < progress["read_bytes"] <= progress["total_bytes"] == large.stat().st_size
    assert progress["rows"] > 0 and progress["non_zeros"] == 2 * progress["rows"]
    assert importing_service.request("DELETE", "/v1/datasets/d").status_code == 204
    wait_for(lambda: not list(importing_service.settings.datasets.iterdir()))
    assert importing_service.request("PUT", "/v1/datasets/d?import=train.svm").status_code == 202
    wait_for_state(importing_service, "d", "ready")


def test_an_import_begins_anew_when_the_service_does(importing_service, tmp_path, monkeypatch):
    monkeypatch.setattr(importing.Importer, "wake", lambda self: None)
    importing_service.request("PUT", "/v1/datasets/d?import=train.svm")
    (record,) = importing_service.store.datasets()
    (importing_service.settings.datasets / f".{record['id']}.staged").mkdir()
    (importing_service.settings.datasets / record["id"]).mkdir()
    monkeypatch.undo()
    again = Service(tmp_path / "data", import_dir=tmp_path / "import")
    assert wait_for_state(again, "d", "ready")["rows"] == 2
    # The dataset's mark is removed after its record says "ready".
    wait_for(lambda: [path.name for path in again.settings.datasets.iterdir()] == [record["id"]])
