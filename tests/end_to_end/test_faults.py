"""Processes that die: the job goes on or says why not, and nothing stays behind."""

import os
import signal
import socket

import httpx

from streamsvm.service.models.formats import formats_for
from tests.end_to_end.conftest import ENDLESS, weights
from tests.end_to_end.service import Service, wait_for

PASSES = 50  # a second or two
FORMATS = formats_for((1.0, -1.0), has_kernel=False)
SPEC = {**ENDLESS, "max_passes": PASSES}


def test_jobs_that_ran_when_their_worker_died_go_on_one_after_the_other(new_service, text):
    service = new_service().start()
    service.upload("data", text)
    jobs = [service.submit(**SPEC) for _ in range(2)]
    for job in jobs:
        service.wait_for_pass(job, 2)
    os.kill(service.processes.one("streamsvm.service.processes.worker"), signal.SIGKILL)
    ended = [service.wait_until_ended(job) for job in jobs]
    assert [(job["state"], job["attempt"]) for job in ended] == 2 * [("succeeded", 2)]
    assert len({weights(service.model(job)).tobytes() for job in ended}) == 1
    again = sorted((job["transitions"][3]["at"], job["finished_at"]) for job in ended)
    assert [step["alone"] for job in ended for step in job["transitions"] if step.get("reason")] == [True, True]
    assert again[0][1] <= again[1][0]


def test_a_stopped_process_counts_as_dead(new_service, text):
    # To start takes seconds on a busy machine, in which nothing is heard.
    service = new_service(stall_seconds=5).start()
    service.upload("data", text)
    jobs = [service.submit(**ENDLESS) for _ in range(2)]
    for job, process in zip(jobs, ("streamsvm.reader.stream.process", "streamsvm.trainer.process"), strict=True):
        service.wait_for_pass(job, 2)
        (pid,) = set(service.processes.alive(job)) & set(service.processes.alive(process))
        os.kill(pid, signal.SIGSTOP)
    for job in jobs:
        wait_for(lambda job=job: service.job(job)["attempt"] == 2)
        assert service.job(job)["transitions"][2]["reason"] == "process_stalled"


def test_everything_killed_at_once_goes_on_after_a_restart(new_service, text):
    service: Service = new_service(jobs_at_once=1).start()
    service.upload("data", text)
    biased = {**SPEC, "max_passes": 1, "bias": 1.0, "class_weight": {"1": 2.0}}
    done = service.train(**biased)
    models = [service.model(done, name) for name in FORMATS]
    running, waiting = service.submit(**SPEC), service.submit(**{**SPEC, "max_passes": 1})
    service.wait_for_pass(running, 3)
    (run,) = service.cache_dir.iterdir()
    service.signal(signal.SIGKILL)
    service.wait(5)
    wait_for(lambda: not service.processes.alive(), 2)
    assert run.is_dir()
    for name in ("mdl_left", "mdl_half"):
        (service.data_dir / "models" / name).mkdir()
    (service.data_dir / "models" / ".mdl_half.unrecorded").touch()
    service.start()
    assert service.job(done["id"]) == done
    assert [service.model(done, name) for name in FORMATS] == models
    ended = service.wait_until_ended(running)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert service.wait_until_ended(waiting)["state"] == "succeeded"
    wait_for(lambda: service.run_directories() == [])
    assert not list((service.data_dir / "models").glob("*mdl_half*"))
    assert (service.data_dir / "models" / "mdl_left").exists()  # nobody said that it may go


def test_a_half_upload_does_not_survive_a_kill(new_service, text):
    service: Service = new_service().start()
    port = int(service.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"PUT /v1/datasets/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n" + text)
        wait_for(lambda: list(service.data_dir.glob("datasets/.*.staged")))
        service.signal(signal.SIGKILL)
        service.wait(5)
        wait_for(lambda: not service.processes.alive(), 2)
    service.start()
    assert service.get("/v1/datasets")["datasets"] == []
    assert list((service.data_dir / "datasets").iterdir()) == []
    service.upload("half", text)


def test_an_import_survives_a_kill_and_a_job_follows_it(new_service, tmp_path, text):
    (tmp_path / "import").mkdir()
    with (tmp_path / "import" / "large.svm").open("wb") as file:
        for _ in range(20):
            file.write(text)
    service: Service = new_service(import_dir=tmp_path / "import").start()
    answer = httpx.put(f"{service.url}/v1/datasets/imported?import=large.svm")
    assert answer.status_code == 202
    job = service.submit(dataset="imported", max_passes=2)
    wait_for(lambda: service.processes.alive("streamsvm.reader.ingest"))
    service.signal(signal.SIGKILL)
    service.wait(5)
    wait_for(lambda: not service.processes.alive(), 5)
    service.start()
    assert (
        wait_for(lambda: (found := service.get("/v1/datasets/imported"))["state"] == "ready" and found)["rows"]
        == 60_000
    )
    assert service.wait_until_ended(job)["state"] == "succeeded"
