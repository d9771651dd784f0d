"""Frequent routes answer the same whether the framework calls them, for the parameters of a query, or not."""

import pytest

from streamsvm.service.models.loaded import load_predictor
from tests.api.app import Service, check_problem, some_model

BODY = b'{"rows": [{"1": 2.5, "9": -1}, {"4": 1}]}'
OWN = {"x-request-id"}  # headers whose values differ from answer to answer


@pytest.fixture(scope="module", params=["getJob", "predict"])
def frequent(request, closed):
    """Method, path, a parameter that changes nothing, and body of a request; and its route in the document."""
    if request.param == "getJob":
        return "GET", f"/v1/jobs/{closed.job}", "wait_seconds=0", b"", "/v1/jobs/{job_id}"
    model = closed.add_model(closed.add_dataset("rows"), some_model())
    load_predictor(closed.settings, model)
    return "POST", f"/v1/models/{model}/predict", "strict=false", BODY, "/v1/models/{model_id}/predict"


@pytest.fixture
def routed(closed, monkeypatch):
    """Paths of requests that reach the framework's routes."""
    paths = []

    async def note(scope, receive, send, routes=closed.app.router.middleware_stack):
        paths.append(scope["path"])
        await routes(scope, receive, send)

    monkeypatch.setattr(closed.app.router, "middleware_stack", note)
    return paths


def ask(service: Service, frequent, query: str = "", **headers: str):
    method, path, _, body, _ = frequent
    return service.request(method, f"{path}{query}", content=body, headers=headers)


def authorized(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.token}"}


def test_the_answer_is_the_same_and_the_framework_is_not_asked(closed, frequent, routed):
    short = ask(closed, frequent, **authorized(closed))
    assert not routed
    long = ask(closed, frequent, f"?{frequent[2]}", **authorized(closed))
    assert routed
    assert short.status_code == long.status_code == 200 and short.content == long.content
    differ = {name for name in {*short.headers, *long.headers} if short.headers.get(name) != long.headers.get(name)}
    assert differ == OWN and short.headers["content-type"] == "application/json"


def test_a_cookie_is_as_good(closed, frequent, routed):
    same_site = {"Sec-Fetch-Site": "same-origin"}
    assert ask(closed, frequent, Cookie=f"streamsvm_token={closed.token}", **same_site).status_code == 200
    assert not routed


def test_requests_are_counted(closed, frequent):
    line = f'streamsvm_http_requests_total{{method="{frequent[0]}",route="{frequent[4]}",status="200"}}'

    def counted() -> float:
        text = closed.request("GET", "/metrics", headers=authorized(closed)).text
        return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))

    before = counted()
    for query in ("", f"?{frequent[2]}"):
        assert ask(closed, frequent, query, **authorized(closed)).is_success
    assert counted() == before + 2


@pytest.mark.parametrize("has_query", [False, True])
def test_requests_are_logged_but_for_polls(closed, frequent, caplog, has_query):
    with caplog.at_level("INFO", "streamsvm.api"):
        ask(closed, frequent, f"?{frequent[2]}" if has_query else "", **authorized(closed))
    lines = [record.fields for record in caplog.records if record.message == "request"]
    assert len(lines) == (frequent[0] == "POST" or has_query)
    assert all((line["path"], line["status"], line["token"]) == (frequent[1], 200, "reader") for line in lines)


def test_a_poll_that_fails_is_logged(closed, caplog):
    with caplog.at_level("INFO", "streamsvm.api"):
        closed.request("GET", f"/v1/jobs/{closed.job}", headers={})
    (line,) = [record.fields for record in caplog.records if record.message == "request"]
    assert (line["status"], line["job_id"]) == (401, closed.job)


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({}, "token_missing", 401),
        ({"Authorization": "Bearer ssvm_wrong"}, "token_invalid", 401),
        ({"Authorization": "Basic x"}, "token_invalid", 401),
        ({"Host": "evil.example"}, "host_not_allowed", 421),
    ],
)
def test_who_may_not_is_refused(closed, frequent, headers, code, status):
    check_problem(ask(closed, frequent, **headers), code, status)


def test_other_paths_and_methods_are_others_business(closed, frequent):
    method, path, _, _, _ = frequent
    check_problem(ask(closed, frequent, "?x=1", **authorized(closed)), "unknown_parameter", 422)
    check_problem(closed.request("PATCH", path, headers=authorized(closed)), "method_not_allowed", 405)
    check_problem(closed.request(method, f"{path}/x", headers=authorized(closed)), "no_such_route", 404)
    unknown = path.replace("job_0", "job_1").replace("mdl_0", "mdl_1")
    missing = closed.request(method, unknown, headers=authorized(closed))
    check_problem(missing, "unknown_job" if method == "GET" else "unknown_model", 404)
    check_problem(closed.request("DELETE", f"/v1/jobs/{closed.job}", headers=authorized(closed)), "scope_missing", 403)
    history = closed.request("GET", f"/v1/jobs/{closed.job}/history", headers=authorized(closed))
    assert history.json() == {"passes": []}
