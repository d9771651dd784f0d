"""/v1/datasets/{name}/blocks: rows are added and removed, never under a job."""

import sqlite3

import pytest

from streamsvm.service.records.store import Store
from tests.api.app import Service, check_problem
from tests.end_to_end.service import wait_for

TEXT = b"1 1:0.5 3:1\n-1 2:1\n"


@pytest.fixture
def grown(service):
    """`d`, to which rows were added."""
    assert service.request("PUT", "/v1/datasets/d", content=TEXT).status_code == 201
    added = service.request("POST", "/v1/datasets/d/blocks?format=csv", content=b"label;a\n1;2\n-1;3\n-1;4\n")
    assert (added.status_code, added.json()["rows"], added.json()["blocks"]) == (201, 5, 2)
    return service


def test_rows_are_added_and_removed(grown):
    listed = grown.request("GET", "/v1/datasets/d/blocks").json()["blocks"]
    assert [(block["block"], block["rows"], block["non_zeros"]) for block in listed] == [(0, 2, 3), (1, 3, 3)]
    assert grown.request("DELETE", "/v1/datasets/d/blocks/0").status_code == 204
    shown = grown.request("GET", "/v1/datasets/d").json()
    assert (shown["state"], shown["rows"], shown["label_counts"]) == ("ready", 3, {"1": 1, "-1": 2})
    assert [block["block"] for block in grown.request("GET", "/v1/datasets/d/blocks").json()["blocks"]] == [1]
    check_problem(grown.request("DELETE", "/v1/datasets/d/blocks/1"), "last_block", 422)


def test_what_cannot_be_changed(grown):
    request = grown.request
    check_problem(request("DELETE", "/v1/datasets/d/blocks/7"), "unknown_block", 404)
    check_problem(request("DELETE", "/v1/datasets/d/blocks/x"), "wrong_type", 422)
    check_problem(request("DELETE", "/v1/datasets/d/blocks/-1"), "wrong_type", 422)
    check_problem(request("DELETE", "/v1/datasets/e/blocks/0"), "unknown_dataset", 404)
    check_problem(request("POST", "/v1/datasets/e/blocks", content=TEXT), "unknown_dataset", 404)
    check_problem(request("GET", "/v1/datasets/e/blocks"), "unknown_dataset", 404)
    assert request("GET", "/v1/datasets/d").json()["rows"] == 5


def test_rows_that_are_there_are_not_refused_because_that_cannot_be_written_down_yet(grown, monkeypatch):
    refusals, end_change = [sqlite3.OperationalError("database or disk is full")], Store.end_change

    def refusing(*given):
        if refusals:
            raise refusals.pop()
        return end_change(*given)

    monkeypatch.setattr(Store, "end_change", refusing)
    added = grown.request("POST", "/v1/datasets/d/blocks", content=TEXT)
    assert (added.status_code, added.json()["rows"]) == (201, 7)
    shown = wait_for(lambda: (found := grown.request("GET", "/v1/datasets/d").json())["state"] == "ready" and found)
    assert shown["rows"] == 7 and not refusals


def test_never_under_a_job(grown):
    job = grown.request("POST", "/v1/jobs", json={"dataset": "d"}).json()["id"]
    check_problem(grown.request("POST", "/v1/datasets/d/blocks", content=TEXT), "dataset_in_use", 409)
    check_problem(grown.request("DELETE", "/v1/datasets/d/blocks/0"), "dataset_in_use", 409)
    grown.store.claim()
    grown.store.finish(job, "succeeded")
    assert grown.request("DELETE", "/v1/datasets/d/blocks/0").status_code == 204


def test_no_job_and_no_other_change_while_it_changes(grown):
    grown.store.begin_change("d")
    assert grown.request("GET", "/v1/datasets/d").json()["state"] == "changing"
    check_problem(grown.request("POST", "/v1/jobs", json={"dataset": "d"}), "not_ready", 409)
    check_problem(grown.request("POST", "/v1/datasets/d/blocks", content=TEXT), "not_ready", 409)
    check_problem(grown.request("DELETE", "/v1/datasets/d/blocks/0"), "not_ready", 409)
    check_problem(grown.request("DELETE", "/v1/datasets/d"), "not_ready", 409)


def test_a_change_that_a_dead_process_left_is_cleared_away(grown):
    record = grown.store.begin_change("d")
    directory = grown.settings.datasets / record["id"]
    (directory / "blocks" / "000002.blk").write_bytes(b"half")
    (grown.settings.datasets / f".{record['id']}.appending").mkdir()
    again = Service(grown.settings.data_dir)
    assert again.request("GET", "/v1/datasets/d").json()["state"] == "ready"
    assert sorted(path.name for path in (directory / "blocks").iterdir()) == ["000000.blk", "000001.blk"]
    assert [path.name for path in grown.settings.datasets.iterdir()] == [record["id"]]
    assert Store(grown.settings.database).dataset_state(record["id"]) == "ready"


STRINGS = {
    "fasta": b">label=1\nACGT\n\n>label=-1\nGGTN\n",
    "csv&string_column=s&label_column=y": b"y,s\n1,ACGT\n\n-1,ACCC\n",
}


@pytest.mark.parametrize("first", STRINGS)
@pytest.mark.parametrize("second", STRINGS)
def test_rows_of_another_format_are_added_and_so_are_its_counts(service, first, second):
    assert service.request("PUT", f"/v1/datasets/s?format={first}", content=STRINGS[first]).status_code == 201
    added = service.request("POST", f"/v1/datasets/s/blocks?format={second}", content=STRINGS[second])
    assert (added.status_code, added.json()["rows"], added.json()["blank_lines"]) == (201, 4, 2)
    assert added.json().get("unknown_letters", 0) == (first == "fasta") + (second == "fasta")
