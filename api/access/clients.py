"""Identifies the client of a request, for shares, limits and the log."""

import ipaddress

from starlette.types import Scope

# A key of the ASGI scope: the name of the token that came with the request.
TOKEN = "streamsvm.token"
# A household or firm is given a whole network of IPv6 addresses.
_NETWORK_BITS = 64


def client_of(scope: Scope) -> str:
    """Return the token's name, or the network of the address if there is no token."""
    token = scope.get(TOKEN)
    return f"token {token}" if token else network_of(address_of(scope))


def address_of(scope: Scope) -> str:
    """Return the client's address from the connection or a trusted proxy; empty if that is not an IP address."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def network_of(address: str) -> str:
    """Return an IPv4 address unchanged, and the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], _NETWORK_BITS), strict=False))
