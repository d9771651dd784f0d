"""Tokens and scopes: every route is closed to those who may not use it, and no other site's page gets in."""

import asyncio
import threading

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from streamsvm.api.access import auth
from streamsvm.api.access.auth import OPEN, SCOPES
from streamsvm.api.server import check_bind
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database
from streamsvm.service.records.tokens import Tokens, allows, hash_of
from tests.api.app import Service, check_problem
from tests.api.server import RunningServer, request

VALUES = {"name": "nosuch", "job_id": "job_0", "model_id": "mdl_0"}
CHANGE = ("DELETE", "/v1/datasets/nosuch")
NOT_LET_IN = (401, 403)


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that others can reach, with a token of each scope in `closed.token`."""
    service = Service(tmp_path_factory.mktemp("closed"), host="0.0.0.0")
    service.token = {scope: service.tokens.new(scope, scope) for scope in ("read", "submit", "admin")}
    return service


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookie(token: str) -> dict[str, str]:
    return {"Cookie": f"{auth.COOKIE}={token}"}


def everything(app) -> list[tuple[str, str, str]]:
    """(operationId, method, url) of every route."""
    found = []
    for route in iter_route_contexts(app.routes):
        values = {name: VALUES.get(name, "0") for name in route.param_convertors}
        url = route.path_format.format(**values)
        found += [(route.operation_id, method, url) for method in route.methods]
    return found


def test_every_route_lets_in_whom_it_should(closed):
    routes = everything(closed.app)
    assert len(routes) > 12
    for operation, method, url in routes:
        needed = None if operation in OPEN else SCOPES[operation]
        answers = {
            "nobody": closed.request(method, url),
            "wrong": closed.request(method, url, headers=bearer("ssvm_wrong")),
            **{scope: closed.request(method, url, headers=bearer(closed.token[scope])) for scope in closed.token},
        }
        for who, answer in answers.items():
            if needed is None:
                assert answer.status_code != 401, (operation, who)
            elif who in ("nobody", "wrong"):
                check_problem(answer, "token_missing" if who == "nobody" else "token_invalid", 401)
                assert answer.headers["www-authenticate"].startswith("Bearer")
            elif allows(who, needed):
                assert answer.status_code not in NOT_LET_IN, (operation, who)
            else:
                check_problem(answer, "scope_missing", 403)


def test_the_body_of_someone_not_let_in_is_not_read(closed):
    async def unreadable():
        raise AssertionError("the body was read")
        yield

    check_problem(closed.request("PUT", "/v1/datasets/d", content=unreadable()), "token_missing", 401)
    check_problem(closed.request("POST", "/v1/jobs", content=unreadable()), "token_missing", 401)


def test_what_is_no_token_and_a_scheme_of_any_case(closed):
    for header in ("", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {} x", "Bearer x{}", "Bearer \u00e4"):
        value = header.format(closed.token["admin"]).encode("latin-1")
        check_problem(closed.request("GET", "/v1/jobs", headers={"Authorization": value}), "token_invalid", 401)
    headers = {"Authorization": f"bearer {closed.token['read']}"}
    assert closed.request("GET", "/v1/jobs", headers=headers).status_code == 200


def test_without_tokens_this_machine_may_do_everything_and_with_one_nobody_else(service, monkeypatch):
    assert service.request("GET", "/v1/jobs").status_code == 200
    check_problem(service.request("GET", "/v1/jobs", headers=bearer("ssvm_x")), "token_invalid", 401)
    monkeypatch.setattr(auth, "_TABLE_SECONDS", 0.0)
    service.app.state.access = auth.Access(service.tokens, required=False)
    token = service.tokens.new("me", "read")
    check_problem(service.request("GET", "/v1/jobs"), "token_missing", 401)
    assert service.request("GET", "/v1/jobs", headers=bearer(token)).status_code == 200
    service.tokens.revoke("me")
    for headers, code in ((bearer(token), "token_invalid"), ({}, "token_missing")):
        problem = check_problem(service.request("GET", "/v1/jobs", headers=headers), code, 401)
        assert "streamsvm token new" in problem["hint"]
    again = Service(service.settings.data_dir, allowed_hosts=("example.org",))
    check_problem(again.request("GET", "/v1/jobs"), "token_missing", 401)


def test_a_token_is_known_as_soon_as_it_is_made(closed, monkeypatch):
    """Also after one that was refused, and while the table is read for another request."""
    monkeypatch.setattr(auth, "_TABLE_SECONDS", 3600.0)
    check_problem(closed.request("GET", "/v1/jobs", headers=bearer("ssvm_x")), "token_invalid", 401)
    for number in range(20):
        token = closed.tokens.new(f"new-{number}", "read")
        assert closed.request("GET", "/v1/jobs", headers=bearer(token)).status_code == 200


def test_a_token_is_known_that_was_made_while_the_table_was_read(closed, monkeypatch):
    table, reads, may_end = closed.tokens.table, [], threading.Event()

    def slow():
        reads.append(table())
        assert may_end.wait(60)
        return reads[-1]

    async def ask():
        access = auth.Access(closed.tokens, required=True)
        reading = asyncio.ensure_future(access.has_tokens())
        while not reads:
            await asyncio.sleep(0.001)
        asking = asyncio.ensure_future(access.token_of(closed.tokens.new("late", "read")))
        await asyncio.sleep(0)
        may_end.set()
        return await asking, await reading

    monkeypatch.setattr(closed.tokens, "table", slow)
    assert asyncio.run(ask()) == (("late", "read", None), True) and len(reads) == 2


def test_tokens_that_are_none_do_not_read_the_table_again(closed, monkeypatch):
    monkeypatch.setattr(auth, "_TABLE_SECONDS", 3600.0)
    monkeypatch.setattr(type(closed.tokens), "change", lambda _: (1,))
    closed.request("GET", "/v1/jobs", headers=bearer("ssvm_y"))
    monkeypatch.setattr(type(closed.tokens), "table", lambda _: pytest.fail("it is read"))
    check_problem(closed.request("GET", "/v1/jobs", headers=bearer("ssvm_x")), "token_invalid", 401)


def test_a_token_that_has_expired(closed):
    token = closed.tokens.new("old", "admin", expires_at="2026-01-01T00:00:00.000Z")
    for headers in (bearer(token), cookie(token)):
        problem = check_problem(closed.request("GET", "/v1/jobs", headers=headers), "token_expired", 401)
        assert "2026-01-01" in problem["detail"] and "token new" in problem["hint"]
    page = closed.request("GET", "/v1/jobs", headers=cookie(token) | {"Accept": "text/html"})
    assert page.headers["location"].startswith("/login")
    answer = log_in(closed, token)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False) and "expired" in answer.text
    lasting = closed.tokens.new("lasting", "read", expires_at="2100-01-01T00:00:00.000Z")
    assert closed.request("GET", "/v1/jobs", headers=bearer(lasting)).status_code == 200


def test_the_last_use_of_a_token_is_written_once_a_minute(closed, monkeypatch):
    written, seconds = [], [1000.0]
    note = closed.tokens.note_use
    monkeypatch.setattr(closed.tokens, "note_use", lambda name: written.append(name) or note(name))
    monkeypatch.setattr(auth.time, "monotonic", lambda: seconds[0])
    tokens = {closed.tokens.new(name, "read") for name in ("used", "used-too", "unused")}

    async def ask(access, *asked):
        await asyncio.gather(*(access.token_of(token) for token in asked))
        await asyncio.gather(*access._noting)

    by_name = {token.name: text for text in tokens for token in [closed.tokens.table()[hash_of(text)]]}
    access, asked = auth.Access(closed.tokens, required=True), (by_name["used"], by_name["used-too"])
    for later in (0.0, 30.0, 59.0):
        seconds[0] = 1000.0 + later
        asyncio.run(ask(access, *asked * 50))
    assert sorted(written) == ["used", "used-too"]
    seconds[0] += 1.0
    asyncio.run(ask(access, by_name["used"]))
    assert written[2:] == ["used"]
    # Another process finds it, as this one does after a restart.
    uses = {each["name"]: each["last_used_at"] for each in Tokens(Database(closed.settings.database)).list()}
    assert uses["used"] >= uses["used-too"] > "2026" and uses["unused"] is None


def test_without_a_token_nothing_is_open_to_others(tmp_path):
    service = Service(tmp_path, host="0.0.0.0")
    with pytest.raises(ServiceError, match="needs a token"):
        check_bind(service.settings)
    check_problem(service.request("GET", "/v1/jobs"), "token_missing", 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(service, closed, headers):
    check_problem(service.request(*CHANGE, headers=headers), "cross_site", 403)
    sent = headers | cookie(closed.token["admin"])
    check_problem(closed.request(*CHANGE, headers=sent), "cross_site", 403)
    # Nor can it make a browser send a token as Authorization: one that does is a program.
    sent = headers | bearer(closed.token["admin"])
    check_problem(closed.request(*CHANGE, headers=sent), "unknown_dataset", 404)


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://localhost"}], ids=str)
def test_our_own_pages_act_with_the_cookie(closed, headers):
    sent = headers | cookie(closed.token["admin"])
    check_problem(closed.request(*CHANGE, headers=sent), "unknown_dataset", 404)
    sent = headers | cookie(closed.token["read"])
    check_problem(closed.request(*CHANGE, headers=sent), "scope_missing", 403)


def test_the_cookie_alone_reads_but_changes_nothing(closed):
    headers = cookie(closed.token["admin"])
    assert closed.request("GET", "/v1/jobs", headers=headers).status_code == 200
    check_problem(closed.request(*CHANGE, headers=headers), "cross_site", 403)
    check_problem(closed.request("GET", "/v1/jobs", headers=cookie("ssvm_old")), "token_missing", 401)


def test_a_browser_without_a_token_is_sent_to_the_form(closed):
    answer = closed.request("GET", "/v1/jobs", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fv1%2Fjobs")
    page = closed.request("GET", answer.headers["location"])
    assert page.status_code == 200 and 'name="next" value="/v1/jobs"' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def log_in(closed, token: str, target: str = "/", **headers: str) -> httpx.Response:
    headers = {"Sec-Fetch-Site": "same-origin"} | headers
    return closed.request("POST", "/login", data={"token": token, "next": target}, headers=headers)


def test_the_form_keeps_the_token_in_a_cookie_no_script_and_no_other_site_sees(closed):
    answer = log_in(closed, closed.token["read"], "/v1/jobs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/v1/jobs")
    kept, *marks = answer.headers["set-cookie"].split("; ")
    assert kept == f"{auth.COOKIE}={closed.token['read']}"
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(marks)
    assert closed.request("GET", "/v1/jobs", headers={"Cookie": kept}).status_code == 200
    left = closed.request("POST", "/logout", headers={"Sec-Fetch-Site": "same-origin"})
    assert left.status_code == 303 and "Max-Age=0" in left.headers["set-cookie"]


def test_a_wrong_token_in_the_form(closed):
    answer = log_in(closed, '"><script>', '"><script>')
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert "<script>" not in answer.text
    for _ in range(20):
        assert log_in(closed, "ssvm_x").status_code == 401
    assert log_in(closed, closed.token["read"]).status_code == 303  # from the same address


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_site_logs_anyone_in_or_out(closed, site):
    answer = log_in(closed, closed.token["read"], **{"Sec-Fetch-Site": site})
    check_problem(answer, "cross_site", 403)
    check_problem(closed.request("POST", "/logout", headers={"Sec-Fetch-Site": site}), "cross_site", 403)
    check_problem(closed.request("POST", "/logout"), "cross_site", 403)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "javascript:x"])
def test_the_form_leads_to_our_own_pages_only(closed, target):
    assert log_in(closed, closed.token["read"], target).headers["location"] == "/"


@pytest.mark.parametrize("body", [b"", b"\xff=\xff&token", b"token=" + b"x" * 4090, b"&".join([b"a=b"] * 900)])
def test_a_form_that_is_none(closed, body):
    assert closed.request("POST", "/login", content=body, headers={"Sec-Fetch-Site": "none"}).status_code == 401


def test_a_form_too_large(closed):
    sent = {"Sec-Fetch-Site": "none"}
    check_problem(closed.request("POST", "/login", content=b"x" * 4097, headers=sent), "body_too_large", 413)


def test_who_ask_at_once_share_one_look_at_the_tokens():
    class Counted:
        looks = 0

        def table(self):
            self.looks += 1
            return {}

        def change(self):
            return ()

    async def ask(access):
        return await asyncio.gather(*(access.token_of(f"ssvm_{k}") for k in range(20)))

    tokens = Counted()
    assert asyncio.run(ask(auth.Access(tokens, required=True))) == [None] * 20
    assert tokens.looks == 1


@pytest.mark.parametrize(
    ("trusted", "address", "is_secure"),
    [(("127.0.0.0/8",), "192.0.2.7", True), (("10.0.0.0/8",), "127.0.0.1", False), (None, "127.0.0.1", False)],
)
def test_who_asks_through_a_proxy(tmp_path, caplog, trusted, address, is_secure):
    service = Service(tmp_path, **({"trusted_proxies": trusted} if trusted else {}))
    token = service.tokens.new("ada", "read")
    form = f"token={token}".encode()
    forwarded = {"X_Forwarded_For": "203.0.113.9, 192.0.2.7", "X_Forwarded_Proto": "https", "Sec_Fetch_Site": "none"}
    with caplog.at_level("INFO", "streamsvm.api"), RunningServer(service) as server:
        head, _ = server.answer(request("POST", "/login", form, **forwarded))
        server.answer(request("GET", "/v1/jobs", Authorization=f"Bearer {token}", **forwarded))
    assert head.startswith(b"HTTP/1.1 303 ") and (b"; Secure" in head) == is_secure
    lines = [record.fields for record in caplog.records if record.message == "request"]
    assert [(line["address"], line["token"]) for line in lines] == [(address, "ada")] * 2
    assert token not in str(lines)
