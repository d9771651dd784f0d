"""The shortcut answers a poll of a job exactly as the route does."""

import pytest

from tests.api.app import Service, check_problem

_ANSWERED = 'streamsvm_http_requests_total{method="GET",route="/v1/jobs/{job_id}",status="200"}'


def poll(service: Service, query: str = "", **headers: str):
    return service.request("GET", f"/v1/jobs/{service.job}{query}", headers=headers)


def counted(service: Service) -> float:
    text = service.request("GET", "/metrics", headers={"Authorization": f"Bearer {service.token}"}).text
    (line,) = [line for line in text.splitlines() if line.startswith(_ANSWERED)]
    return float(line.split()[-1])


def test_the_answer_is_the_same_and_the_framework_is_not_asked(closed, routed):
    short = poll(closed, Authorization=f"Bearer {closed.token}")
    assert not routed
    long = poll(closed, "?wait_seconds=0", Authorization=f"Bearer {closed.token}")
    assert routed
    assert short.status_code == long.status_code == 200 and short.content == long.content
    assert {*short.headers} == {*long.headers} and short.headers["content-type"] == "application/json"
    assert short.headers["x-request-id"] != long.headers["x-request-id"]


def test_a_cookie_is_as_good(closed, routed):
    assert poll(closed, Cookie=f"streamsvm_token={closed.token}").status_code == 200
    assert not routed


def test_polls_are_counted(closed):
    poll(closed, Authorization=f"Bearer {closed.token}")
    before = counted(closed)
    poll(closed, Authorization=f"Bearer {closed.token}")
    assert counted(closed) == before + 1


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({}, "token_missing", 401),
        ({"Authorization": "Bearer ssvm_wrong"}, "token_invalid", 401),
        ({"Authorization": "Basic x"}, "token_invalid", 401),
        ({"Host": "evil.example"}, "host_not_allowed", 421),
    ],
)
def test_who_may_not_is_refused(closed, headers, code, status):
    check_problem(poll(closed, **headers), code, status)


def test_other_paths_and_methods_are_others_business(closed):
    headers = {"Authorization": f"Bearer {closed.token}"}
    unknown = closed.job[:-1] + ("0" if closed.job[-1] != "0" else "1")
    check_problem(closed.request("GET", f"/v1/jobs/{unknown}", headers=headers), "unknown_job", 404)
    check_problem(closed.request("GET", f"/v1/jobs/{closed.job}?x=1", headers=headers), "unknown_parameter", 422)
    check_problem(closed.request("DELETE", f"/v1/jobs/{closed.job}", headers=headers), "scope_missing", 403)
    assert closed.request("GET", f"/v1/jobs/{closed.job}/history", headers=headers).json() == {"passes": []}
