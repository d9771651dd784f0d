"""Which URLs may be called, by the list of hosts and by the addresses that a host has."""

import ipaddress
import socket

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.notifications.destinations import addresses, check_address, destination

HOSTS = ("Hooks.example.com", "*.example.org", "receiver:9000", "127.0.0.1:8080", "[::1]:8080")


def refused(work, *arguments):
    with pytest.raises(ServiceError) as caught:
        work(*arguments)
    return caught.value.code


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hooks.example.com", ("https", "hooks.example.com", 443, "/", True)),
        ("http://HOOKS.example.com/a?b=c", ("http", "hooks.example.com", 80, "/a?b=c", True)),
        ("https://a.b.example.org/x", ("https", "a.b.example.org", 443, "/x", False)),
        ("http://receiver:9000/?", ("http", "receiver", 9000, "/", True)),
        ("http://127.0.0.1:8080/", ("http", "127.0.0.1", 8080, "/", True)),
        ("http://[::1]:8080/", ("http", "::1", 8080, "/", True)),
    ],
)
def test_allowed(url, expected):
    assert destination(url, HOSTS) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/", "https://example.org/", "https://hooks.example.com.evil.net/",
        "https://evilexample.org/", "https://hooks.example.com:8443/", "http://receiver/", "http://127.0.0.1/",
        "http://2130706433:8080/", "http://[::1]/", "https://hooks.example.com./",
    ],
)  # fmt: skip
def test_hosts_and_ports_that_the_list_does_not_have(url):
    assert refused(destination, url, HOSTS) == "notify_forbidden"
    assert refused(destination, url, ()) == "notify_forbidden"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example.com/", "https:///x", "https://me@hooks.example.com/", "https://hooks.example.com/#x",
        "https://hooks.example.com/a b", "https://hooks.example.com\\@evil.net/", "https://hooks.example.com:x/",
        "https://hooks.example.com/\r\nHost: evil", "https://hooks.example.com/é", "https://[::1/",
        f"https://{'a' * 64}.example.org/", "https://a..example.org/", "https://.example.org/", "https://../",
        f"https://{'a.' * 130}example.org/",
    ],
)  # fmt: skip
def test_urls_that_are_none(url):
    assert refused(destination, url, ("*",)) == "notify_invalid"


INNER = ("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1", "fd00::1", "::1", "::ffff:10.0.0.1",
         "64:ff9b::a00:1", "2002:0a00:0001::")  # fmt: skip
NEAR = (
    "169.254.169.254",
    "fe80::1",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "::169.254.169.254",
)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_public_addresses(address):
    check_address(destination("https://a.example.org", HOSTS), ipaddress.ip_address(address))


@pytest.mark.parametrize("address", INNER)
def test_inner_addresses_are_for_hosts_that_the_list_names(address):
    found = ipaddress.ip_address(address)
    check_address(destination("https://hooks.example.com", HOSTS), found)
    assert refused(check_address, destination("https://a.example.org", HOSTS), found) == "notify_forbidden"


@pytest.mark.parametrize("address", NEAR)
def test_near_addresses_have_to_be_named_themselves(address):
    found = ipaddress.ip_address(address)
    assert refused(check_address, destination("https://hooks.example.com", HOSTS), found) == "notify_forbidden"


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://10.0.0.1", "http://[::1]/", "http://169.254.169.254/"])
def test_a_pattern_allows_no_inner_literal(url):
    assert refused(destination, url, ("*", "1*")) == "notify_forbidden"


def test_a_numeric_spelling_is_looked_up_and_refused():
    """The system's resolver takes 2130706433 for 127.0.0.1."""
    assert refused(addresses, destination("http://2130706433/", ("*",))) == "notify_forbidden"


def test_one_inner_address_among_public_ones_is_refused():
    def resolve(*_, **__):
        return [(socket.AF_INET, 1, 6, "", (address, 443)) for address in ("93.184.216.34", "10.0.0.1")]

    assert refused(addresses, destination("https://a.example.org", HOSTS), resolve) == "notify_forbidden"


@pytest.mark.parametrize(
    "address",
    ["fec0::1", "::127.0.0.1", "::169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b:1::a00:1", "5f00::1", "4000::1"],
)
def test_addresses_of_ipv6_that_lead_into_a_network_are_not_public(address):
    """Python calls these global: addresses of a site, and those that a network's rules turn into addresses of IPv4."""
    found = destination("http://a.example.org/", HOSTS)
    assert refused(check_address, found, ipaddress.ip_address(address)) == "notify_forbidden"
