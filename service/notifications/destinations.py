"""Decides which URLs may be called when a job ends: by the hosts in STREAMSVM_NOTIFY_HOSTS, and by their addresses.

An entry of the list is a host, `*.example.com` for all hosts below a domain, or `*` for all; with `:PORT` it is for
that port, else for 80 and 443. A host that a pattern allows must have a public address. One that the list names may be
in the service's own network; link-local addresses, where clouds give out credentials, are allowed as literals only.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from streamsvm.service.errors import ServiceError

Resolve = Callable[..., list[tuple[Any, ...]]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Others whose last 32 bits may stand for an address of IPv4: by a network's own NAT64 or SIIT, and as once planned.
_LOCAL_EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")))
# Addresses of IPv6 that may be public: all unicast ones that are given out, NAT64, and addresses of IPv4 as such.
_PUBLIC = tuple(map(ipaddress.ip_network, ("2000::/3", "64:ff9b::/96", "::ffff:0:0/96")))
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_SET = "Whoever runs the service sets STREAMSVM_NOTIFY_HOSTS, such as hooks.example.com,*.example.org."


class Destination(NamedTuple):
    """
    host      in lower case; an address of IPv6 without brackets
    target    path and query, as a request sends them
    is_named  whether the list names the host itself, not by a pattern
    """

    scheme: str
    host: str
    port: int
    target: str
    is_named: bool


def destination(url: str, hosts: Iterable[str]) -> Destination:
    """The destination of a URL. Raises ServiceError notify_invalid, notify_forbidden; looks no name up."""
    parts, port = _split(url)
    host = (parts.hostname or "").lower()
    matching = [entry for entry in hosts if _matches(entry.lower(), host, port)]
    if not matching:
        raise ServiceError("notify_forbidden", f"the service calls no URL of {host}:{port}", _SET)
    found = Destination(
        parts.scheme, host, port, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}",
        any("*" not in entry for entry in matching),
    )  # fmt: skip
    if (address := _literal(host)) is not None:
        check_address(found, address)
    return found


def addresses(found: Destination, resolve: Resolve = socket.getaddrinfo) -> list[tuple[Any, ...]]:
    """Look a destination's host up, once; each result is (family, socket address).

    Raises ServiceError notify_forbidden if one of its addresses is not allowed, OSError if there is none.
    """
    results = resolve(found.host, found.port, type=socket.SOCK_STREAM)
    for _family, _kind, _protocol, _name, address in results:
        check_address(found, ipaddress.ip_address(address[0].partition("%")[0]))
    return [(family, address) for family, _kind, _protocol, _name, address in results]


def check_address(found: Destination, address: Address) -> None:
    """Raise ServiceError notify_forbidden if a destination may not have this address."""
    inner = _embedded(address)
    may_be_public = address.version == 4 or any(address in network for network in _PUBLIC)
    if inner.is_global and may_be_public and not inner.is_multicast:
        return
    is_near = inner.is_link_local or inner.is_multicast or inner.is_unspecified
    if not found.is_named or (is_near and _literal(found.host) != address):
        raise ServiceError(
            "notify_forbidden", f"{found.host} has an address of the service's own network: {address}", _SET
        )


def _split(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise _invalid() from None
    is_plain = url.isascii() and url.isprintable() and not {" ", "\\"} & set(url)
    if not is_plain or not _may_be_looked_up(parts.hostname or "") or "@" in parts.netloc or "#" in url:
        raise _invalid()
    return parts, port


def _may_be_looked_up(host: str) -> bool:
    """Whether it is an address, or has the form of a name."""
    labels = host.removesuffix(".").split(".")
    is_name = len(host) <= _LONGEST_NAME and all(0 < len(label) <= _LONGEST_LABEL for label in labels)
    return is_name or _literal(host) is not None


def _invalid() -> ServiceError:
    hint = "Give http:// or https://, a host and a path; no user, blank or fragment."
    return ServiceError("notify_invalid", "notify is no URL that can be called", hint)


def _matches(entry: str, host: str, port: int) -> bool:
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdecimal() and (name.endswith("]") or ":" not in name):
        is_port = port == int(wanted)
    else:
        name, is_port = entry, port in _PORTS.values()
    name = name.strip("[]")
    is_host = name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))
    return is_host and is_port


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    """The address of IPv4 that one of IPv6 stands for, else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64 or any(address in network for network in _LOCAL_EMBEDDING):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
