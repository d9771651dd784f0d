"""A request that adds rows and is sent again with its Idempotency-Key: they are added once, whatever dies meanwhile."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from streamsvm.service.datasets.uploads import MoreRows
from streamsvm.service.records.store import Store
from tests.api.app import Service, check_problem

TEXT, MORE = b"1 1:0.5 3:1\n-1 2:1\n", b"1 1:1\n-1 2:2\n1 3:1\n"


@pytest.fixture
def service(service):
    """With the dataset `d` of two rows."""
    assert service.request("PUT", "/v1/datasets/d", content=TEXT).status_code == 201
    return service


def add(service, key, content=MORE, query=""):
    return service.request("POST", f"/v1/datasets/d/blocks{query}", content=content, headers={"Idempotency-Key": key})


def rows(service):
    return service.request("GET", "/v1/datasets/d").json()["rows"]


def test_the_first_answer_comes_again(service):
    first, again = add(service, "a"), add(service, '"a"')
    assert first.status_code == again.status_code == 201 and first.json()["rows"] == 5
    assert again.json() == first.json() and rows(service) == 5
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert add(service, "b").json()["rows"] == 8 and rows(service) == 8
    assert add(service, "a").json() == first.json()


@pytest.mark.parametrize(("content", "query"), [(MORE + b"1 1:1\n", ""), (MORE, "?format=libsvm")])
def test_another_request_is_refused(service, content, query):
    add(service, "a")
    check_problem(add(service, "a", content, query), "idempotency_key_reused", 422)
    check_problem(
        service.request("POST", "/v1/jobs", json={"dataset": "d"}, headers={"Idempotency-Key": "a"}),
        "idempotency_key_reused",
        422,
    )
    check_problem(add(service, ""), "idempotency_key_invalid", 422)
    assert rows(service) == 5


def test_a_request_that_added_nothing_may_be_sent_again(service):
    check_problem(add(service, "a", b"spam\n"), "bad_label", 422)
    assert add(service, "a").json()["rows"] == 5


def test_one_whose_rows_came_and_were_not_added_may_be_sent_again_after_another_one(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MoreRows, "_finish", failing)
        assert add(service, "a").status_code == 500
    assert add(service, "b").json()["rows"] == 5
    assert add(service, "a").json()["rows"] == 8


def test_one_that_is_under_way_is_waited_for(service, monkeypatch):
    begun, may_go_on = Event(), Event()
    finish = MoreRows._finish

    async def slow(upload):
        begun.set()
        await asyncio.to_thread(may_go_on.wait, 30)
        await finish(upload)

    monkeypatch.setattr(MoreRows, "_finish", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(add, service, "a")
        assert begun.wait(30)
        check_problem(add(service, "a"), "request_under_way", 409)
        may_go_on.set()
        assert first.result().json() == add(service, "a").json()
    assert rows(service) == 5


def test_a_service_that_died_before_it_answered_has_added_the_rows(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Store, "keep_answer", lambda *_: 1 / 0)
        assert add(service, "a").status_code == 500
    again = add(service, "a")
    assert again.headers["idempotent-replayed"] == "true" and again.json()["rows"] == rows(service) == 5


def test_a_service_that_died_when_rows_were_added_knows_it_after_its_start(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MoreRows, "_end_change", lambda _: None)
        patch.setattr(Store, "keep_answer", lambda *_: 1 / 0)
        assert add(service, "a").status_code == 500
        check_problem(add(service, "a"), "request_under_way", 409)
    started = Service(service.settings.data_dir)
    again = add(started, "a")
    assert again.headers["idempotent-replayed"] == "true" and again.json()["rows"] == rows(started) == 5


def test_a_service_that_died_before_rows_were_added_adds_them_after_its_start(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MoreRows, "_finish", failing)
        patch.setattr(MoreRows, "_drop", lambda _: None)
        assert add(service, "a").status_code == 500
    started = Service(service.settings.data_dir)
    assert add(started, "b").json()["rows"] == 5
    again = add(started, "a")
    assert "idempotent-replayed" not in again.headers and again.json()["rows"] == rows(started) == 8


async def failing(_upload):
    """All rows have come, and the process that takes them dies."""
    raise RuntimeError("died")
