"""Paging, long polls, events, histories, estimates, and the end of jobs, over HTTP."""

import asyncio
import csv
import io
import json
import time

import httpx
import pytest

from streamsvm.service.jobs.progress import feed
from streamsvm.service.jobs.progress.feed import Event, read_part
from streamsvm.storage.run.slowdowns import bits_of, told
from streamsvm.trainer.updates.convergence import CONVERGED
from tests.api.app import CERTIFICATE, Service, check_problem

PASSES = [{"pass": k, "gap": 1 / k, "dual_objective": float(k)} for k in (1, 2, 3)]


def submit(service: Service, **fields) -> str:
    return service.request("POST", "/v1/jobs", json={"dataset": "data", **fields}).json()["id"]


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path)
    service.add_dataset("data")
    return service


@pytest.fixture
def ended(service):
    """Id of a job that has succeeded after three passes."""
    job = submit(service)
    service.store.claim()
    (service.settings.jobs / job).mkdir()
    lines = [json.dumps(record) + "\n" for record in (*PASSES, {"result": {}})]
    (service.settings.jobs / job / "history.ndjson").write_text("".join(lines))
    service.request.is_checked = False  # lines of passes are whole elsewhere
    service.store.finish(job, "succeeded", model_id="mdl_1")
    return job


def test_pages_hold_every_job_once(service):
    jobs = sorted((submit(service) for _ in range(5)), reverse=True)
    found, query = [], ""
    for size in (2, 2, 1):
        page = service.request("GET", f"/v1/jobs?page_size=2{query}").json()
        assert len(page["jobs"]) == size
        found += [job["id"] for job in page["jobs"]]
        query = f"&page_token={page['next_page_token']}"
    assert found == jobs and page["next_page_token"] is None


@pytest.mark.parametrize("query", ["page_size=0", "page_size=201", "page_token=", "page_token=job_1", "page_token=%00"])
def test_pages_that_are_none(filled, query):
    check_problem(filled.request("GET", f"/v1/jobs?{query}"), "wrong_type", 422)


@pytest.mark.parametrize("folds", [None, 3])
def test_a_stop_of_a_running_job_is_noted_and_with_folds_that_no_model_may_come(service, folds):
    job = submit(service, folds=folds)
    check_problem(service.request("POST", f"/v1/jobs/{job}/stop"), "not_possible", 409)
    service.store.claim()
    answer = service.request("POST", f"/v1/jobs/{job}/stop")
    assert (answer.status_code, answer.json()["requested"], answer.json()["state"]) == (202, "stop", "running")
    assert [each["code"] for each in answer.json()["warnings"]] == ["no_model"] * (folds is not None)


def test_only_a_job_that_has_ended_is_deleted(service, ended):
    queued = submit(service)
    check_problem(service.request("DELETE", f"/v1/jobs/{queued}"), "not_possible", 409)
    assert service.request("DELETE", f"/v1/jobs/{ended}").status_code == 204
    assert not (service.settings.jobs / ended).exists()
    check_problem(service.request("GET", f"/v1/jobs/{ended}"), "unknown_job", 404)
    assert service.store.model("mdl_1")


@pytest.mark.parametrize(
    ("method", "what"),
    [("POST", "/stop"), ("POST", "/cancel"), ("DELETE", ""), ("GET", ""), ("GET", "/events"), ("GET", "/history")],
)
def test_unknown_jobs(filled, method, what):
    for job in ("job_0", "%00"):
        check_problem(filled.request(method, f"/v1/jobs/{job}{what}"), "unknown_job", 404)


def test_history_as_csv(service, ended):
    answer = service.request("GET", f"/v1/jobs/{ended}/history?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [{name: float(value) for name, value in row.items()} for row in rows] == PASSES
    assert service.request("GET", f"/v1/jobs/{ended}/history").json() == {"passes": PASSES}


def test_history_as_csv_is_of_passes_alone(service, ended):
    sweep = {"sweep": 1, "elapsed_seconds": 0.5, "gap": 0.75}
    step = {"step": 1, "elapsed_seconds": 0.5, "scans": 4, "system_rows": 9, "sigma": 1.0, "gap": 0.75}
    line = json.dumps({"pass": 1, "gap": 0.5, "sweeps": [sweep], "newton": [step]}) + "\n"
    (service.settings.jobs / ended / "history.ndjson").write_text(line)
    assert service.request("GET", f"/v1/jobs/{ended}/history?format=csv").text == "pass,gap\n1,0.5\n"
    (found,) = service.request("GET", f"/v1/jobs/{ended}/history").json()["passes"]
    assert (found["sweeps"], found["newton"]) == ([sweep], [step])


def events(text: str) -> list[dict]:
    """Server-sent events as a browser would take them."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def test_events_tell_the_whole_story_and_end(service, ended):
    answer = service.request("GET", f"/v1/jobs/{ended}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events(answer.text)
    assert [event["event"] for event in told] == ["state", "state", "pass", "pass", "pass", "state", "end"]
    assert [event["data"] for event in told if event["event"] == "pass"] == PASSES
    assert told[-1]["data"] == service.request("GET", f"/v1/jobs/{ended}").json()
    for k, event in enumerate(told[:-1]):
        rest = service.request("GET", f"/v1/jobs/{ended}/events", headers={"Last-Event-ID": event["id"]})
        assert events(rest.text) == told[k + 1 :]


def test_many_who_watch_a_long_history_share_its_parts(service, ended):
    passes = [{"pass": k, "gap": 1 / k, "dual_objective": float(k)} for k in range(1, 5001)]
    (service.settings.jobs / ended / "history.ndjson").write_text("".join(json.dumps(each) + "\n" for each in passes))
    read_part.cache_clear()

    async def all_answers() -> list[str]:
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers = await asyncio.gather(*(client.get(f"/v1/jobs/{ended}/events") for _ in range(20)))
        return [answer.text for answer in answers]

    first, *others = asyncio.run(all_answers())
    assert [event["data"] for event in events(first) if event["event"] == "pass"] == passes
    assert all(other == first for other in others)
    assert read_part.cache_info().misses <= 10


def test_many_streams_of_a_job_cost_one_look_and_one_encoding_a_beat(service, monkeypatch):
    """Also those that came at other times; each is told all once."""
    job, looks, encoded = submit(service), [], []
    service.store.claim()
    (service.settings.jobs / job).mkdir()
    view, encode = feed.job_view, Event.__bytes__
    progress = {"phase": "training", "progress": {"pass": 1}}

    def look(settings, record):
        looks.append(record)
        return view(settings, record) | (progress if record["state"] == "running" else {})

    monkeypatch.setattr(feed, "job_view", look)
    monkeypatch.setattr(feed, "_FRESH_SECONDS", 0.0)  # no look serves two who ask
    monkeypatch.setattr(feed, "_PROGRESS_SECONDS", 0.05)
    monkeypatch.setattr(Event, "__bytes__", lambda event: encoded.append(event) or encode(event))

    async def told(streams: int) -> list[list[bytes]]:
        jobs, found, tasks = feed.JobFeed(service.settings, service.store), [[] for _ in range(streams)], []

        async def read(into: list[bytes]) -> None:
            into += [each async for each in jobs.events(job, 0)]

        for into in found:
            tasks.append(asyncio.create_task(read(into)))
            await asyncio.sleep(0.002)
        for each in PASSES:
            with (service.settings.jobs / job / "history.ndjson").open("a") as file:
                file.write(json.dumps(each) + "\n")
            await asyncio.sleep(0.1)
        service.store.finish(job, "succeeded", model_id="mdl_1")
        await asyncio.gather(*tasks)
        return found

    streams = asyncio.run(told(60))
    beats = max(map(len, streams))
    assert len(looks) <= 60 + beats and len(encoded) <= 60 * 3 + 5 * beats
    for stream in streams:
        found = events(b"".join(stream).decode())
        assert [event["data"] for event in found if event["event"] == "pass"] == PASSES
        assert [event["event"] for event in found if event["event"] != "progress"][-2:] == ["state", "end"]
        assert sum(event["event"] == "progress" for event in found) <= beats


def test_a_last_event_that_is_none_begins_anew(service, ended):
    for number in ("spam", "-1", "1.5", "²", ""):
        answer = service.request("GET", f"/v1/jobs/{ended}/events", headers={"Last-Event-ID": number.encode()})
        assert len(events(answer.text)) == 7, number


def test_a_long_poll_answers_when_the_state_changes_and_not_before(service):
    job = submit(service)
    seq = service.request("GET", f"/v1/jobs/{job}").json()["seq"]

    async def both() -> tuple[dict, bool]:
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            polls = [asyncio.create_task(client.get(f"/v1/jobs/{job}?wait_seconds=30&after={seq}")) for _ in range(50)]
            await asyncio.sleep(0.3)
            early = any(poll.done() for poll in polls)
            await asyncio.to_thread(service.store.claim)
            return [(await poll).json() for poll in polls], early

    shown, early = asyncio.run(both())
    assert not early
    assert {job["state"] for job in shown} == {"running"} and shown[0]["seq"] > seq


def test_a_long_poll_ends_with_its_time_or_at_once_if_nothing_will_change(service, ended):
    job = submit(service)
    began = time.monotonic()
    shown = service.request("GET", f"/v1/jobs/{job}?wait_seconds=0.2&after={1 << 40}").json()
    assert shown["state"] == "queued" and time.monotonic() - began >= 0.2
    assert service.request("GET", f"/v1/jobs/{ended}?wait_seconds=60&after={1 << 40}").json()["state"] == "succeeded"


def test_polls_that_are_none(service, ended):
    for query in ("wait_seconds=61", "wait_seconds=-1", "wait_seconds=nan", "after=-1", "after=x"):
        check_problem(service.request("GET", f"/v1/jobs/{ended}?{query}"), "wrong_type", 422)


def test_a_change_is_seen_at_once(service):
    job = submit(service)
    for _ in range(10):
        assert service.request("GET", f"/v1/jobs/{job}").json()["state"] == "queued"
        service.store.claim()
        assert service.request("GET", f"/v1/jobs/{job}").json()["state"] == "running"
        service.store.requeue(job)


def test_answers_have_no_blanks_for_those_who_grep(service, ended):
    for path in ("", "/history", "/events"):
        assert '": ' not in service.request("GET", f"/v1/jobs/{ended}{path}").text


def test_an_estimate_runs_nothing(service):
    answer = service.request("POST", "/v1/jobs/estimate", json={"dataset": "data", "memory_bytes": 1 << 30})
    assert answer.status_code == 200 and answer.json()["memory"]["total_bytes"] == 1 << 30
    assert service.store.jobs() == []
    too_small = {"dataset": "data", "memory_bytes": 1 << 20}
    for route in ("/v1/jobs", "/v1/jobs/estimate"):
        check_problem(service.request("POST", route, json=too_small), "memory_too_small", 422)


LANE = {"class": 1.0, "fold": None, "C": 1.0, "converged": False, "passes": 3, **CERTIFICATE}


def result_of(stop_reason, **figures):
    """The result of a job that did not converge."""
    certificate, lane = {**CERTIFICATE, **figures}, {**LANE, **figures, "stop_reason": stop_reason}
    return {
        "converged": False, "stop_reason": stop_reason, "passes": 3, "certificate": certificate, "lanes": [lane],
    }  # fmt: skip


def test_a_job_that_did_not_converge_warns_by_how_much(service):
    for fields, gap, relative, said in (
        ({}, 0.25, 0.5, "converged: relative duality gap is 0.5; 0.0001 was asked for"),
        ({"tolerance": 0.001}, 0.25, 0.5, "converged: M+ - M- is 0.25; tolerance was 0.001"),
        ({"tolerance": 0.001, "relative_gap": 0.1}, 0.25, 0.5,
         "relative duality gap is 0.5; 0.1 was asked for, and M+ - M- is 0.25; tolerance was 0.001"),
        ({"tolerance": None}, 0.25, 0.5, "converged: M+ - M- is 0.25"),
        ({"tolerance": 0.001}, None, 0.5, "converged: relative duality gap is 0.5"),
        ({}, None, None, "the objective is 2, nothing bounds it from below"),
    ):  # fmt: skip
        result = result_of("max_passes", dual_objective=None, relative_duality_gap=relative, gap=gap)
        job, warning = warned(service, result, **fields)
        assert warning["code"] == "not_converged" and said in warning["message"]
        assert warning["hint"] == "Resume it with a larger max_passes."
        assert said in service.request("GET", f"/jobs/{job}").text


def warned(service, result, **fields):
    """The id of a job that has ended with this result, and its one warning."""
    job = submit(service, **fields)
    service.store.claim()
    service.store.finish(job, "succeeded", result=result)
    (warning,) = service.request("GET", f"/v1/jobs/{job}").json()["warnings"]
    return job, warning


def test_a_job_that_did_not_converge_is_told_what_would_help(service):
    _, warning = warned(service, result_of("max_passes", gap=0.25, relative_duality_gap=0.5), pace="fixed")
    assert '"pace": "adaptive", which takes Newton steps' in warning["hint"]
    for reasons, hint in (
        (["max_seconds"], "Resume it with a larger max_seconds."),
        (["relative_gap", "max_seconds", "max_passes"], "Resume it with a larger max_passes and a larger max_seconds."),
        (["stopped", "tolerance"], "Resume it: it goes on from where it was stopped."),
    ):
        lanes = [{**LANE, "converged": each in CONVERGED, "stop_reason": each} for each in reasons]
        assert warned(service, {**result_of(reasons[0]), "lanes": lanes})[1]["hint"] == hint


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"pace": "fixed"}, 'Or train anew with "features": ["scale"].'),
        ({"kernel": "rbf"}, "Or train anew on scaled rows: a kernel takes no features."),
    ],
)
def test_a_job_whose_scales_mattered_is_told_to_scale_features(service, fields, hint):
    job = submit(service, **fields)
    service.store.claim()
    service.store.explain_job(job, slowdowns=told(bits_of(["scales_differ"])))
    service.store.finish(job, "succeeded", result=result_of("max_passes"))
    warnings = {each["code"]: each for each in service.request("GET", f"/v1/jobs/{job}").json()["warnings"]}
    assert warnings.keys() == {"not_converged", "scales_differ"}
    assert hint in warnings["not_converged"]["hint"]
