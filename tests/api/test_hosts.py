"""The service answers to its own names only."""

import pytest

from streamsvm.api.app import host_name
from tests.api.app import Service, check_problem


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return Service(tmp_path_factory.mktemp("named"), host="10.0.0.5", allowed_hosts=("svm.example.org", "API"))


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "LocalHost"])
def test_loopback_names(service, host):
    assert service.request("GET", "/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["10.0.0.5:8000", "svm.example.org", "SVM.example.org:443", "api:8000", "localhost"])
def test_names_it_was_given(named, host):
    check_problem(named.request("GET", "/v1/jobs", headers={"Host": host}), "token_missing", 401)


FOREIGN = [
    "evil.example", "evil.example:8000", "localhost.evil.example", "evil.localhost", "127.0.0.1.evil.example",
    "svm.example.org.evil.example", "localhost@evil.example", "localhost:", ":8000", "localhost:80:80", "127.0.0.2",
    "::1", "",
]  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN)
def test_foreign_names(service, named, host):
    for asked in (service, named):
        for url in ("/v1/jobs", "/v2/health/live", "/nowhere", "/login"):
            check_problem(asked.request("GET", url, headers={"Host": host}), "host_not_allowed", 421)


def test_the_port_does_not_count():
    assert [host_name(host) for host in ("a:1", "a", "[::1]:80", "[::1]")] == ["a", "a", "[::1]", "[::1]"]
