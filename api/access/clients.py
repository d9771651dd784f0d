"""Who sent a request: what shares, limits and the log go by."""

import ipaddress

from starlette.types import Scope

# A key of the ASGI scope: the name of the token that came with the request.
TOKEN = "streamsvm.token"
# One household or firm has as many addresses of IPv6.
_NETWORK_BITS = 64


def client_of(scope: Scope) -> str:
    """Name of the token, or the address if there is none: those of one network of IPv6 are one client."""
    token = scope.get(TOKEN)
    return f"token {token}" if token else network_of(address_of(scope))


def address_of(scope: Scope) -> str:
    """The client's address, as the connection or a trusted proxy tells it; empty where that is no address."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def network_of(address: str) -> str:
    """An address of IPv4; of IPv6 the network it is in."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], _NETWORK_BITS), strict=False))
