"""Jobs that go on where they were: after a crash, after a restart, as new jobs."""

import os
import signal

import httpx
import numpy as np
import pytest
from scipy import sparse

from streamsvm.storage.run.checkpoint import SURE_SLOTS, UNSURE_SLOT, newest_checkpoint, read_checkpoint
from tests.contracts.problems import libsvm_text
from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import wait_for

PASSES = 30  # some seconds
STACKS = (sparse.vstack, np.concatenate)
SPEC = {**ENDLESS, "max_passes": PASSES, "checkpoint_seconds": 0.1}


@pytest.fixture(scope="module")
def undisturbed(service) -> bytes:
    """w of the job SPEC."""
    return weights(service.model(service.train(**SPEC))).tobytes()


@pytest.mark.parametrize(
    "process", ["streamsvm.reader.stream.process", "streamsvm.trainer.process", "streamsvm.service.processes.worker"]
)
def test_a_killed_process_costs_no_finished_pass(service, undisturbed, process):
    job = service.submit(**SPEC)
    service.wait_for_pass(job, 6)
    os.kill(service.processes.one(process), signal.SIGKILL)
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert weights(service.model(ended)).tobytes() == undisturbed
    (requeued,) = [step for step in ended["transitions"][1:] if step["state"] == "queued"]
    assert requeued["reason"] in ("process_died", "worker_died")
    assert 0 <= requeued["lost_seconds"] < 5
    passes = service.get(f"/v1/jobs/{job}/history")["passes"]
    assert [record["pass"] for record in passes] == list(range(1, PASSES + 1))
    wait_for(lambda: service.run_directories() == [])
    # Time goes on, too, it does not begin anew.
    seconds = [record["elapsed_seconds"] for record in passes]
    assert seconds == sorted(seconds)


def test_a_service_that_is_told_to_end_hands_its_job_back_with_a_checkpoint(new_service, undisturbed, text):
    service = new_service().start()
    service.upload("data", text)
    job = service.submit(**SPEC)
    for number, pass_ in ((signal.SIGTERM, 6), (signal.SIGINT, 12)):
        service.wait_for_pass(job, pass_)
        before = service.job(job)["progress"]["pass"]
        service.signal(number)
        assert service.wait(20) == 0
        wait_for(lambda: not service.processes.alive(), 1)
        wait_for(lambda: service.run_directories() == [])
        newest = max(
            (read_checkpoint(service.data_dir / "jobs" / job / slot) for slot in SURE_SLOTS),
            key=lambda c: c.about["number"],
        )
        assert newest.about["pass"] > before
        service.start()
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert weights(service.model(ended)).tobytes() == undisturbed


def test_a_damaged_checkpoint_gives_way_to_the_older_one_or_to_none(new_service, undisturbed, text):
    """Of two jobs: the newer one of the first is damaged, both of the second."""
    service = new_service().start()
    service.upload("data", text)
    jobs = [service.submit(**SPEC) for _ in range(2)]
    for job in jobs:
        service.wait_for_pass(job, 6)
    service.signal(signal.SIGKILL)
    service.wait(5)
    wait_for(lambda: not service.processes.alive(), 5)
    for damaged, job in enumerate(jobs, 1):
        slots = [service.data_dir / "jobs" / job / slot for slot in SURE_SLOTS]
        slots.sort(key=lambda path: -read_checkpoint(path).about["number"])
        for path in slots[:damaged]:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
    service.start()
    for job, reason in zip(jobs, (None, "checkpoint_lost"), strict=True):
        ended = service.wait_until_ended(job)
        assert weights(service.model(ended)).tobytes() == undisturbed
        said = [step.get("reason") for step in ended["transitions"] if step["state"] == "running"]
        assert said == [None, reason]


def test_a_finished_job_goes_on_as_a_new_one(service, undisturbed):
    first = service.wait_until_ended(service.submit(**{**SPEC, "max_passes": 10}))
    answer = httpx.post(f"{service.url}/v1/jobs/{first['id']}/resume", json={"max_passes": PASSES})
    assert answer.status_code == 202
    second = answer.json()
    assert answer.headers["Location"] == f"/v1/jobs/{second['id']}"
    assert (second["continues"], second["spec"]["max_passes"]) == (first["id"], PASSES)
    ended = service.wait_until_ended(second["id"])
    assert weights(service.model(ended)).tobytes() == undisturbed
    passes = service.get(f"/v1/jobs/{second['id']}/history")["passes"]
    assert [record["pass"] for record in passes] == list(range(1, PASSES + 1))
    assert service.job(first["id"]) == first


def test_crashes_without_progress_fail_the_job(new_service, text):
    service = new_service(max_crashes=3).start()
    service.upload("data", text)
    job = service.submit(**SPEC)
    for attempt in (1, 2, 3):
        wait_for(lambda n=attempt: service.job(job)["attempt"] == n)
        # Before its first pass is over.
        os.kill(service.processes.one("streamsvm.reader.stream.process"), signal.SIGKILL)
    failed = service.wait_until_ended(job)
    assert (failed["state"], failed["attempt"], failed["failure"]["code"]) == ("failed", 3, "crash_loop")


def test_kills_within_a_pass_do_not_add_up_where_checkpoints_are_made(new_service, problem):
    """More of them than would fail the job, all in its first pass, each as soon as there is a newer checkpoint."""
    service = new_service(max_crashes=2).start()
    service.upload("data", libsvm_text(*(stack([part] * 4) for part, stack in zip(problem, STACKS, strict=True))))
    spec = {"cache_bytes": 1 << 17, "tolerance": None, "max_passes": 1, "checkpoint_seconds": 0.1}
    options = {"spill": False, "screening": None, "updates_per_row": 300}
    job = service.submit(dataset="data", **spec, solver_options=options)
    directory, number = service.data_dir / "jobs" / job, 0
    for attempt in range(1, 4):
        wait_for(lambda n=attempt: service.job(job)["attempt"] == n)
        trainer = service.processes.one("streamsvm.trainer.process")
        newest = wait_for(
            lambda n=number: (found := newest_checkpoint(directory)) and found.about["number"] > n and found
        )
        os.kill(trainer, signal.SIGKILL)
        number = newest.about["number"]
        assert newest.about["pass"] == 1
        # The second attempt has not yet seen all the rows that alpha and w of the first are to be compared by.
        assert (newest.path.name == UNSURE_SLOT) == (attempt > 1)
    ended = service.wait_until_ended(job)
    assert (ended["state"], ended["attempt"], ended["result"]["passes"]) == ("succeeded", 4, 1)
    assert [step["pass"] for step in ended["transitions"] if "pass" in step] == [1] * 3
    assert ended["result"]["certificate"]["w_error"] < 1e-9
    assert {path.name for path in directory.glob("checkpoint.*")} <= set(SURE_SLOTS)
