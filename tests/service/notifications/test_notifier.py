"""The end of a job is told: once it is on record, until it is settled, over restarts of the service."""

import json
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamsvm.service.notifications.notifier as notifier_module
from streamsvm.service.errors import ServiceError
from streamsvm.service.notifications.notifier import Notifier, Schedule
from streamsvm.service.notifications.signing import key_of
from tests.api.app import Service, check_problem
from tests.end_to_end.service import wait_for
from tests.service.notifications.receiver import Receiver

SECRET = "whsec_c3RyZWFtc3ZtIG5vdGlmaWVzIGl0cyByZWNlaXZlcnM="
QUICK = Schedule(first=0.01, longest=0.05, give_up=60.0)


def service_for(tmp_path, *hosts: str) -> Service:
    service = Service(tmp_path, notify_hosts=hosts, notify_secret=SECRET)
    if not service.store.datasets():
        service.dataset = service.add_dataset("data")
    return service


def submitted(service: Service, url: str, **fields) -> str:
    answer = service.request("POST", "/v1/jobs", json={"dataset": "data", "notify": url, **fields})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def ended(service: Service, job: str, state: str = "succeeded", **columns) -> None:
    assert service.store.claim_job()["id"] == job
    service.store.finish_job(job, state, **columns)


def notified(service: Service, job: str) -> dict:
    return service.store.job(job)["transitions"][-1].get("notified", {})


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    return service_for(tmp_path_factory.mktemp("service"), "hooks.example.com")


@contextmanager
def notifying(service: Service, schedule: Schedule = QUICK, **arguments):
    notifier = Notifier(service.settings, service.store, schedule, look=0.01, **arguments)
    assert notifier.is_needed
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.stop()


def settled(service: Service, job: str, state: str) -> dict:
    wait_for(lambda: notified(service, job).get("state") == state)
    return notified(service, job)


def verifier():
    """The function that the README shows to receivers."""
    text = (Path(__file__).parents[3] / "service/README.md").read_text()
    section = text[text.index("\n## Notifications") :]
    lines = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    assert len([line for line in lines.splitlines() if line]) <= 16
    found: dict = {}
    exec(lines, found)
    return found["verified"]


def test_an_event_arrives_and_the_lines_of_the_readme_verify_it(tmp_path):
    with Receiver() as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url(), labels={"team": "a"})
        assert notified(service, job) == {}
        result = {"converged": True, "stop_reason": "relative_gap"}
        ended(service, job, result=result)
        assert notified(service, job) == {"state": "waiting", "attempts": 0}
        with notifying(service):
            assert settled(service, job, "delivered").items() >= {"attempts": 1, "status": 200}.items()
    (arrival,) = receiver.arrivals
    event = json.loads(arrival.body)
    assert event["type"] == "job.succeeded"
    told = {"id": job, "state": "succeeded", "dataset": "data", "labels": {"team": "a"}, "failure": None, **result}
    assert event["data"].items() >= told.items() and event["data"]["finished_at"]
    verified = verifier()
    assert verified(SECRET, arrival.headers, arrival.body) == event
    sent_at = int(arrival.headers["webhook-timestamp"])
    for headers, body in (
        (arrival.headers, arrival.body.replace(b"succeeded", b"failed")),
        ({**arrival.headers, "webhook-timestamp": str(sent_at + 1)}, arrival.body),
        ({**arrival.headers, "webhook-id": "ntf_other"}, arrival.body),
    ):
        with pytest.raises(ValueError, match="signature"):
            verified(SECRET, headers, body)
    with pytest.raises(ValueError, match="old"):
        verified(SECRET, arrival.headers, arrival.body, now=sent_at + 1000)


def test_a_host_that_answers_does_not_wait_for_many_slow_ones(tmp_path, monkeypatch):
    """Four slow hosts took all places: others waited ten seconds for each four calls that were due."""
    monkeypatch.setattr(notifier_module, "_SLOW_SECONDS", 0.0)
    hosts = [f"slow{number}.example.com" for number in range(6)]
    service = service_for(tmp_path, *hosts, "good.example.com")
    for host in hosts:
        ended(service, submitted(service, f"http://{host}/"))
    go_on, called = threading.Event(), []

    def call(found, *_):
        called.append(found.host)
        if found.host == "good.example.com":
            return 204
        if called.count(found.host) > 1:
            go_on.wait(60)
        raise TimeoutError

    with notifying(service, Schedule(first=0.01, longest=0.01, give_up=60.0), call=call):
        wait_for(lambda: sum(called.count(host) > 1 for host in hosts) >= 2)
        job = submitted(service, "http://good.example.com/")
        ended(service, job)
        settled(service, job, "delivered")
        go_on.set()


@pytest.mark.parametrize("state", ["failed", "stopped", "cancelled", "cancelled while queued"])
def test_each_end_is_told(tmp_path, state):
    with Receiver() as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url())
        if state.endswith("queued"):
            service.store.request(job, "cancel")
        else:
            service.store.claim_job()
            if state == "cancelled":
                service.store.request(job, "cancel")
            service.store.finish_job(job, state if state != "cancelled" else "succeeded", failure={"code": "x"})
        with notifying(service):
            settled(service, job, "delivered")
    (arrival,) = receiver.arrivals
    assert json.loads(arrival.body)["type"] == f"job.{state.split()[0]}"


def test_a_job_that_goes_back_to_the_queue_has_not_ended(tmp_path):
    service = service_for(tmp_path, "hooks.example.com")
    job = submitted(service, "https://hooks.example.com/")
    service.store.claim_job()
    service.store.requeue_job(job, reason="process_died")
    assert service.store.next_notification() is None


def test_500_then_200_with_the_same_id(tmp_path):
    with Receiver(500, 503, 302) as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url())
        ended(service, job)
        with notifying(service):
            assert settled(service, job, "delivered")["attempts"] == 4
    assert [arrival.path for arrival in receiver.arrivals] == ["/hook?to=me"] * 4
    assert len({arrival.headers["webhook-id"] for arrival in receiver.arrivals}) == 1
    assert service.store.next_notification() is None


def test_what_is_due_is_told_after_a_restart(tmp_path):
    """The first service meets nobody at the address; the second one does, and keeps counting."""
    with Receiver() as receiver:
        pass
    service = service_for(tmp_path, receiver.host)
    job = submitted(service, receiver.url())
    ended(service, job)
    with notifying(service, Schedule(first=0.01, longest=0.01, give_up=60.0)):
        wait_for(lambda: notified(service, job)["attempts"] >= 2)
    assert "refused" in notified(service, job)["failure"].lower() and notified(service, job)["next_at"]
    again = service_for(tmp_path, receiver.host)
    called = []

    def call(found, headers, body):
        called.append(found)
        return 200

    with notifying(again, call=call):
        assert settled(again, job, "delivered")["attempts"] >= 3
    assert len(called) == 1


def test_it_is_given_up_after_a_time_and_the_job_tells_it(tmp_path):
    with Receiver(*[500] * 100) as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url())
        ended(service, job)
        # Each call takes 250 seconds of the clock.
        with notifying(
            service, Schedule(first=0.01, longest=0.02, give_up=600.0),
            clock=lambda: time.time() + 250 * len(receiver.arrivals),
        ):  # fmt: skip
            told = settled(service, job, "given_up")
    assert told["failure"] == "it answered 500" and told["attempts"] == len(receiver.arrivals) == 3
    view = service.request("GET", f"/v1/jobs/{job}").json()
    assert view["transitions"][-1]["notified"] == told
    (warning,) = view["warnings"]
    assert warning["code"] == "notify_given_up" and "500" in warning["message"]


def test_a_receiver_that_is_gone_for_good(tmp_path):
    with Receiver(410) as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url())
        ended(service, job)
        with notifying(service):
            assert settled(service, job, "given_up")["attempts"] == 1


def test_a_job_whose_record_is_deleted_is_told_too(tmp_path):
    with Receiver() as receiver:
        service = service_for(tmp_path, receiver.host)
        job = submitted(service, receiver.url())
        ended(service, job)
        assert service.request("DELETE", f"/v1/jobs/{job}").status_code == 204
        with notifying(service):
            wait_for(lambda: service.store.next_notification() is None)
    assert json.loads(receiver.arrivals[0].body)["data"]["id"] == job


def test_a_slow_receiver_does_not_hold_others_up(tmp_path):
    answering = threading.Event()
    with Receiver(hold=answering.wait) as slow, Receiver() as quick:
        service = service_for(tmp_path, slow.host, quick.host)
        urls = [*[slow.url(f"/{k}") for k in range(6)], quick.url()]
        # One address has two names for the notifier only if its hosts differ.
        urls[-1] = urls[-1].replace("127.0.0.1", "localhost")
        service = service_for(tmp_path, slow.host, quick.host.replace("127.0.0.1", "localhost"))
        jobs = [submitted(service, url) for url in urls]
        for job in jobs:
            ended(service, job)
        with notifying(service):
            settled(service, jobs[-1], "delivered")
            assert len(slow.arrivals) <= 2
            answering.set()
            for job in jobs:
                settled(service, job, "delivered")


def test_a_list_that_got_shorter_ends_the_calls(tmp_path):
    service = service_for(tmp_path, "hooks.example.com")
    job = submitted(service, "https://hooks.example.com/")
    ended(service, job)
    for hosts in ((), ("other.example.com",)):
        with notifying(service_for(tmp_path, *hosts)):
            told = settled(service, job, "given_up")
        assert told["attempts"] == 1
        job = submitted(service, "https://hooks.example.com/")
        ended(service, job)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://evil.example.com/", "notify_forbidden"),
        ("http://169.254.169.254/latest", "notify_forbidden"),
        ("https://me@hooks.example.com/", "notify_invalid"),
        ("file:///etc/passwd", "wrong_type"),
    ],
)
def test_urls_are_refused_with_the_job(strict, url, code):
    check_problem(strict.request("POST", "/v1/jobs", json={"dataset": "data", "notify": url}), code)


def test_without_settings_no_job_has_a_url(tmp_path):
    service = Service(tmp_path)
    service.add_dataset("data")
    answer = service.request("POST", "/v1/jobs", json={"dataset": "data", "notify": "https://hooks.example.com/"})
    assert "STREAMSVM_NOTIFY_HOSTS" in check_problem(answer, "notify_disabled", 422)["hint"]
    assert not Notifier(service.settings, service.store).is_needed


@pytest.mark.parametrize("secret", ["short", "whsec_%%%", "whsec_c2hvcnQ="])
def test_secrets_that_are_none(secret):
    with pytest.raises(ServiceError) as caught:
        key_of(secret)
    assert caught.value.code == "notify_secret_invalid" and secret not in caught.value.message


def test_the_secret_is_not_shown(tmp_path):
    assert SECRET not in repr(Service(tmp_path, notify_secret=SECRET).settings)
