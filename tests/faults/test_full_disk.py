"""A disk without room costs an answer or a while, never what is there."""

import os
from contextlib import suppress

import httpx
import pytest

from tests.disks import mounted_disk
from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import Service, running, wait_for

SPEC = {**ENDLESS, "max_passes": 12, "checkpoint_seconds": 0.2}
DISK_BYTES = 6 << 20
TOO_MUCH = 80  # copies of the text; their blocks do not fit


@pytest.fixture(scope="module")
def one_service(tmp_path_factory, text):
    """Its data directory has a small disk, the caches have not; the problem is there as `data`."""
    directory = tmp_path_factory.mktemp("full")
    (directory / "rows.svm").write_bytes(text)
    service = Service(directory / "service", import_dir=directory)
    with mounted_disk(service.data_dir, DISK_BYTES), running(service):
        service.upload("data", text)
        wait_for(lambda: (service.data_dir / "worker.lock").exists())  # it starts beside the api, in its own time
        yield service


@pytest.fixture
def service(one_service):
    """The service, with `data` alone, no job that goes on, and room."""
    yield one_service
    (one_service.data_dir / "filler").unlink(missing_ok=True)
    for job in one_service.get("/v1/jobs")["jobs"]:
        one_service.wait_until_ended(job["id"])
    for name in {each["name"] for each in one_service.get("/v1/datasets")["datasets"]} - {"data"}:
        httpx.delete(f"{one_service.url}/v1/datasets/{name}").raise_for_status()


def fill(service):
    """Take all room there is; returns the file that has it."""
    path = service.data_dir / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


def files(service):
    return {path.relative_to(service.data_dir) for path in service.data_dir.rglob("*")}


def check_full(response):
    assert (response.status_code, response.json()["code"]) == (507, "out_of_space")
    assert response.json()["hint"]


def test_a_dataset_that_does_not_fit_is_refused_and_leaves_nothing(service, text):
    before = files(service)
    check_full(httpx.put(f"{service.url}/v1/datasets/large", content=TOO_MUCH * text, timeout=60))
    assert files(service) == before
    service.upload("large", text)


def test_rows_that_do_not_fit_are_refused_and_change_nothing(service, text):
    before, shown = files(service), service.get("/v1/datasets/data")
    check_full(httpx.post(f"{service.url}/v1/datasets/data/blocks", content=TOO_MUCH * text, timeout=60))
    assert (files(service), service.get("/v1/datasets/data")) == (before, shown)


def test_uploads_refused_by_a_full_disk_leave_their_names_and_slots_free(service, text):
    filler = fill(service)
    for number in range(6):
        check_full(httpx.put(f"{service.url}/v1/datasets/d{number % 5}", content=text, timeout=60))
    filler.unlink()
    names = [f"d{number}" for number in range(5)]
    wait_for(lambda: not {each["name"] for each in service.get("/v1/datasets")["datasets"]} & set(names))
    for name in names:
        service.upload(name, text[: 1 << 10].rsplit(b"\n", 1)[0])


def test_imports_on_a_full_disk_end_and_others_follow(service):
    filler = fill(service)
    os.truncate(filler, filler.stat().st_size - (24 << 10))  # room for the record, not for the rows

    def put(name):
        return httpx.put(f"{service.url}/v1/datasets/{name}?import=rows.svm")

    assert put("first").status_code == 202
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 10))
    filler.unlink()
    shown = wait_for(lambda: (found := service.get("/v1/datasets/first"))["state"] != "ingesting" and found)
    assert shown["state"] == "ready" or shown["failure"]["code"] in ("out_of_space", "ingest_failed")
    assert put("second").status_code == 202
    wait_for(lambda: service.get("/v1/datasets/second")["state"] == "ready")
    assert httpx.get(f"{service.url}/v2/health/ready").status_code == 200


def test_what_is_deleted_makes_room_on_a_full_disk(service, text):
    service.upload("old", text)
    fill(service)
    assert httpx.delete(f"{service.url}/v1/datasets/old").status_code == 204


def test_a_job_that_cannot_be_recorded_is_refused(service):
    before = [job["id"] for job in service.get("/v1/jobs")["jobs"]]
    filler, taken = fill(service), []
    # The first ones may find room in the store.
    while (answer := httpx.post(f"{service.url}/v1/jobs", json=SPEC)).status_code == 202 and len(taken) < 100:
        taken.append(answer.json()["id"])
    check_full(answer)
    filler.unlink()
    assert [job["id"] for job in service.get("/v1/jobs?page_size=200")["jobs"]] == [*taken[::-1], *before]
    service.submit(**SPEC)


def test_a_job_waits_for_room_and_goes_on(service):
    undisturbed = weights(service.model(service.train(**SPEC))).tobytes()
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 4)
    filler = fill(service)
    # Its history has no room; that it waits is on record as soon as there is room for that.
    wait_for(lambda: not service.processes.alive("streamsvm.trainer.process"))
    filler.unlink()
    ended = service.wait_until_ended(job)
    assert weights(service.model(ended)).tobytes() == undisturbed
    passes = service.get(f"/v1/jobs/{job}/history")["passes"]
    assert [record["pass"] for record in passes] == list(range(1, SPEC["max_passes"] + 1))


def test_a_job_that_finds_no_room_does_not_hold_up_another(service):
    wide = b"1 1:1 50000:1\n-1 2:1\n"  # a model of 400,000 bytes
    service.upload("wide", wide)
    filler = fill(service)
    os.truncate(filler, filler.stat().st_size - (200 << 10))
    waiting = service.submit(dataset="wide", max_passes=2)
    shown = wait_for(lambda: (job := service.job(waiting))["attempt"] and job["state"] == "queued" and job)
    assert shown["transitions"][-1]["reason"] == "out_of_space"
    assert [warning["code"] for warning in shown["warnings"]] == ["waits_for_room"]
    service.train(**SPEC)
    assert service.job(waiting)["state"] in ("queued", "running")
    filler.unlink()
    assert service.wait_until_ended(waiting)["state"] == "succeeded"
