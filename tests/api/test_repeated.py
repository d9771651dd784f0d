"""A request that creates a job and is sent again with its Idempotency-Key."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from streamsvm.service.records import table
from tests.api.app import Service, check_problem

SPEC = {"dataset": "data", "C": 0.5}


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path, max_queued_jobs=10_000)
    service.add_dataset("data")
    return service


def post(service, key, path="/v1/jobs", **fields):
    headers = {} if key is None else {"Idempotency-Key": key}
    return service.request("POST", path, json=fields or SPEC, headers=headers)


def test_the_first_answer_comes_again(service):
    first, again = post(service, "a"), post(service, "a")
    assert first.status_code == again.status_code == 202
    assert again.json() == first.json() and again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    # A string of structured fields is the same key; the answer is the first one, whatever the job has become since.
    service.store.claim()
    assert post(service, '"a"').json() == first.json()
    assert post(service, "a", **dict(reversed(SPEC.items()))).json() == first.json()
    assert len(service.store.jobs()) == 1


def test_another_request_is_refused(service):
    job = post(service, "a").json()["id"]
    check_problem(post(service, "a", dataset="data", C=1), "idempotency_key_reused", 422)
    check_problem(post(service, "a", path=f"/v1/jobs/{job}/resume", max_passes=7), "idempotency_key_reused", 422)


def test_a_request_that_made_nothing_may_be_sent_again(service):
    check_problem(post(service, "a", dataset="other"), "unknown_dataset", 404)
    service.add_dataset("other")
    assert post(service, "a", dataset="other").status_code == 202


def test_keys_that_are_none(service):
    for key in ("", '""', "a b", "x" * 256):
        check_problem(post(service, key), "idempotency_key_invalid", 422)
    assert post(service, "x" * 255).status_code == 202


def test_a_key_is_its_clients_own(service):
    tokens = [service.tokens.new(name, "submit") for name in ("ada", "ben")]
    headers = [{"Idempotency-Key": "a", "Authorization": f"Bearer {token}"} for token in tokens]
    answers = [service.request("POST", "/v1/jobs", json=SPEC, headers=each) for each in headers]
    assert len({answer.json()["id"] for answer in answers}) == 2


def test_a_key_is_free_again_after_a_day(service, monkeypatch):
    first = post(service, "a").json()["id"]

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + timedelta(days=1, minutes=1)

    monkeypatch.setattr(table, "datetime", Tomorrow)
    assert post(service, "a").json()["id"] != first


def test_a_service_that_died_before_it_answered_has_made_one_job(service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(service.app.state.context.store.__class__, "keep_answer", lambda *_: 1 / 0)
        assert post(service, "a").status_code == 500
    again = post(service, "a")
    assert again.headers["idempotent-replayed"] == "true"
    assert [again.json()["id"]] == [job["id"] for job in service.store.jobs()]


def test_as_many_jobs_as_keys(service):
    """A thousand requests, eight at a time, with keys chosen at random; a tenth of them have none."""
    rng = random.Random(0)
    chosen = [str(rng.randrange(60)) if rng.random() < 0.9 else None for _ in range(1000)]

    async def submit(client, turns, key):
        async with turns:
            headers = {} if key is None else {"Idempotency-Key": key}
            while (answer := await client.post("/v1/jobs", json=SPEC, headers=headers)).is_error:
                check_problem(answer, "request_under_way", 409)
        return key, answer.json()["id"]

    async def all_of_them():
        transport, turns = httpx.ASGITransport(service.app), asyncio.Semaphore(8)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(*(submit(client, turns, key) for key in chosen))

    made = set(asyncio.run(all_of_them()))
    expected = len({*chosen} - {None}) + chosen.count(None)
    assert len(made) == expected == len(service.store.jobs())
